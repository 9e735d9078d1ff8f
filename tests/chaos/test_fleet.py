"""2,000 tasks over three nodes on one store while workers and nodes are killed at random.

`make soak` does the same with 100,000.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import Start, on_servers
from storm import FLEET, FLEET_SETTINGS, Storm, chosen_seed, settle, start_fleet

#: It needs all of the machine.
pytestmark = pytest.mark.alone

TASKS, NODES, NODE_KILLS, LEAST_KILLS = 2000, 3, 8, 20


@on_servers
def test_fleet(start_node: Start, tmp_path: Path) -> None:
    seed = chosen_seed()
    print("STORM_SEED =", seed)
    nodes = start_fleet(start_node, NODES)
    storm = Storm(nodes, seed, tmp_path / "runs", **FLEET)
    storm.blow(TASKS, node_kills=NODE_KILLS, least_kills=LEAST_KILLS, patience_s=60)
    for node in nodes:
        settle(node, int(str(FLEET_SETTINGS["workers"])))
    assert storm.violations() == []
    assert len(storm.ends) == TASKS
    assert storm.node_kills == NODE_KILLS
