"""500 tasks of every kind while workers and the node are killed: nothing lost, nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import Start
from storm import APP, SETTINGS, Storm, chosen_seed, settle

#: It needs all of the machine.
pytestmark = pytest.mark.alone

TASKS, NODE_KILLS, LEAST_KILLS = 500, 3, 25


def test_storm(start_node: Start, tmp_path: Path) -> None:
    seed = chosen_seed()
    print("STORM_SEED =", seed)
    node = start_node(APP, **SETTINGS)
    storm = Storm([node], seed, tmp_path / "runs")
    storm.blow(TASKS, node_kills=NODE_KILLS, least_kills=LEAST_KILLS, patience_s=60)
    settle(node, 4)
    assert storm.violations() == []
    assert len(storm.ends) == TASKS
    assert storm.kills >= LEAST_KILLS
    assert storm.node_kills == NODE_KILLS
