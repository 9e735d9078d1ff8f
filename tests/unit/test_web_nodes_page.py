"""A worker's row: what its node said some seconds ago beside what the store has now."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from supervisor.store.roster import AtWork
from supervisor.web.pages.nodes import Lines, WorkerLine

NOW = datetime(2026, 5, 20, tzinfo=UTC)


def line(said_state: str, said_task: str | None, runs: str | None) -> WorkerLine:
    said = {"state": said_state, "task_id": said_task, "progress": [1, 2]}
    task = None
    if runs is not None:
        task = AtWork(
            task_id=runs, type="t", queue="q", attempt=1, node_id="n", worker_id="w",
            claimed_at=NOW, started_at=NOW, mark_kind=None, mark_at=None,
        )  # fmt: skip
    return WorkerLine("w", 7, said, task, None, Lines())


@pytest.mark.parametrize(
    ("said_state", "said_task", "runs", "state", "progress"),
    [
        ("busy", "task_a", "task_a", "busy", [1, 2]),
        ("busy", "task_a", "task_b", "busy", None),  # the next one by now
        ("busy", "task_a", None, "idle", None),
        ("idle", None, "task_a", "busy", None),
        ("stopping", "task_a", None, "stopping", None),
    ],
)
def test_a_row_never_says_idle_beside_a_task_nor_tells_of_another_one(
    said_state: str, said_task: str | None, runs: str | None, state: str, progress: object
) -> None:
    row = line(said_state, said_task, runs)
    assert row.state == state
    assert row.said_of_task.get("progress") == progress
