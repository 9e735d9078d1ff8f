"""300 tasks of every kind while workers and the node are killed: nothing lost, nothing twice."""

from __future__ import annotations

from pathlib import Path

from harness import Start
from storm import APP, SETTINGS, Storm, chosen_seed, settle


def test_storm(start_node: Start, tmp_path: Path) -> None:
    seed = chosen_seed()
    print("STORM_SEED =", seed)
    node = start_node(APP, **SETTINGS)
    storm = Storm(node, seed, tmp_path / "runs")
    storm.blow(300, node_kills=1, least_kills=15, patience_s=60)
    settle(node, 4)
    assert storm.violations() == []
    assert storm.kills >= 15
    assert storm.node_kills == 1
