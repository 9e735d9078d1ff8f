"""Every way to hang, canceled: gone within grace, capture and a second, and truthfully told.

The same ways to hang at their hard limit are in test_kills.
"""

from __future__ import annotations

import os

import pytest
from harness import CANCELED, RUNNING, NodeUnderTest, begun, eventually

from supervisor.model.states import State
from supervisor.store import TaskView

GRACE_S, CAPTURE_S = 1.0, 4.0
NODE_SETTINGS = {"workers": 8, "cancel_grace": GRACE_S, "autopsy_budget": CAPTURE_S}
#: type → what it does
HANGS = {
    "spin": "a loop in Python",
    "nap": "time.sleep",
    "c_sleep": "a C call that holds the GIL",
    "silent_peer": "a C call that does not",
    "stopped": "SIGSTOP",
    "deaf": "every signal blocked",
    "took_alarm": "SIGALRM and SIGTERM ignored",
    "swallow": "except BaseException: pass",
}


@pytest.fixture(scope="module")
def stuck(node: NodeUnderTest) -> dict[str, TaskView]:
    """All of them canceled at once."""
    eventually(lambda: len(node.worker_pids()) == 8, 10)
    hour = {"timeout": 3600.0, "soft_timeout": 3500.0}
    handles = {kind: node.submit(kind, spec=hour) for kind in HANGS}
    for handle in handles.values():
        node.started(handle)
    node.app.cancel([h.task_id for h in handles.values()], by="anna", reason="it hangs")
    return {kind: handle.wait(20) for kind, handle in handles.items()}


@pytest.mark.parametrize("kind", HANGS)
def test_canceled(node: NodeUnderTest, stuck: dict[str, TaskView], kind: str) -> None:
    view = stuck[kind]
    assert (view.state, view.reason) == (State.CANCELED, "canceled")
    assert node.endings(view.task_id) == [(CANCELED, "canceled", "exited", True)]
    assert node.moves(view.task_id) == [*begun(), (RUNNING, CANCELED, "anna", "canceled")]
    (attempt,) = node.attempts(view.task_id)
    assert not os.path.exists(f"/proc/{attempt.pid}")
    lines = node.app.history(view.task_id)
    asked_at = next(line.at for line in lines if line.reason == "cancel_requested")
    took_s = (lines[-1].at - asked_at).total_seconds()
    assert GRACE_S <= took_s < GRACE_S + CAPTURE_S + 1
    assert node.bundle(view.task_id).heading.pid == attempt.pid
