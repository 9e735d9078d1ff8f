"""Every way to hang, with a family below it: canceled, at its hard limit, and when its node dies.

Each is gone in time (the grace or the limit, the capture and a second) with all that was below it,
and truthfully told. What the evidence says of each is in test_kills.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness import (
    CANCELED,
    RUNNING,
    TIMEOUT,
    NodeUnderTest,
    Seen,
    Start,
    begun,
    eventually,
    ran_s,
    seen,
)

from supervisor.client import Handle
from supervisor.model.states import State
from supervisor.store import TaskView
from tests.programs.tasks_hanging import FAMILY_SIZE, HANGS

#: How long nodes take to get over it is measured.
pytestmark = pytest.mark.alone

GRACE_S, CAPTURE_S, LIMIT_S = 1.0, 8.0, 2.0
NODE_APP = "tests.programs.tasks_hanging:app"
NODE_SETTINGS = {"workers": 8, "cancel_grace": GRACE_S, "autopsy_budget": CAPTURE_S}
ENDS = {State.CANCELED, State.TIMEOUT}
#: What the next node may take to end and judge what a killed one left, from its exec on.
TAKE_OVER_S = 2.0
PROOF = "its worker and its node are gone (pid and start time)"


@dataclass(frozen=True)
class Ended:
    """A hanging task that was ended, and the family that was below it."""

    view: TaskView
    family: list[Seen]


def hang_all(
    node: NodeUnderTest, folder: Path, **limits: float
) -> tuple[dict[str, Handle], dict[str, Path]]:
    """Start all eight at once; return them and where their families are written down."""
    eventually(lambda: len(node.worker_pids()) == 8, 10)
    kin = {kind: folder / kind for kind in HANGS}
    handles = {kind: node.submit(kind, spec=limits, kin=str(kin[kind])) for kind in HANGS}
    for kind, handle in handles.items():
        node.started(handle)
        eventually(lambda k=kind: len(seen(kin[k])) == FAMILY_SIZE, 5, f"the family of {kind}")
    return handles, kin


def ended(handles: dict[str, Handle], kin: dict[str, Path]) -> dict[str, Ended]:
    return {kind: Ended(handle.wait(20), seen(kin[kind])) for kind, handle in handles.items()}


@pytest.fixture(scope="module")
def canceled(node: NodeUnderTest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """All of them canceled at once."""
    handles, kin = hang_all(node, tmp_path_factory.mktemp("canceled"))
    node.app.cancel([h.task_id for h in handles.values()], by="anna", reason="it hangs")
    return ended(handles, kin)


@pytest.fixture(scope="module")
def limited(node: NodeUnderTest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """All of them at their hard limit."""
    folder = tmp_path_factory.mktemp("limited")
    return ended(*hang_all(node, folder, timeout=LIMIT_S, soft_timeout=LIMIT_S / 2))


@pytest.mark.parametrize("kind", HANGS)
def test_canceled(node: NodeUnderTest, canceled: dict[str, Ended], kind: str) -> None:
    view = canceled[kind].view
    assert (view.state, view.reason) == (State.CANCELED, "canceled")
    assert node.endings(view.task_id) == [(CANCELED, "canceled", "exited", True)]
    assert node.moves(view.task_id) == [*begun(), (RUNNING, CANCELED, "anna", "canceled")]
    lines = node.app.history(view.task_id)
    asked_at = next(line.at for line in lines if line.reason == "cancel_requested")
    ended_at = next(
        line.at for line in lines if line.to_state is not None and line.to_state in ENDS
    )
    took_s = (ended_at - asked_at).total_seconds()
    assert GRACE_S <= took_s < GRACE_S + CAPTURE_S + 1
    nothing_is_left(node, canceled[kind])


@pytest.mark.parametrize("kind", HANGS)
def test_hard_limit(node: NodeUnderTest, limited: dict[str, Ended], kind: str) -> None:
    view = limited[kind].view
    assert (view.state, view.reason, view.verdict) == (State.TIMEOUT, "timeout", "timeout")
    assert node.endings(view.task_id) == [(TIMEOUT, "timeout", "exited", True)]
    assert node.moves(view.task_id) == [*begun(), (RUNNING, TIMEOUT, "node", "timeout")]
    (attempt,) = node.attempts(view.task_id)
    assert LIMIT_S <= ran_s(attempt) < LIMIT_S + CAPTURE_S + 1
    nothing_is_left(node, limited[kind])


def nothing_is_left(node: NodeUnderTest, one: Ended) -> None:
    """Its process is gone and all that was below it; the bundle lists the tree as it was."""
    (attempt,) = node.attempts(one.view.task_id)
    assert not os.path.exists(f"/proc/{attempt.pid}")
    assert len(one.family) == FAMILY_SIZE
    assert [member for member in one.family if member.alive] == []
    bundle = node.bundle(one.view.task_id)
    assert bundle.heading.pid == attempt.pid
    listed = str(bundle.sections["children"])
    assert [member.pid for member in one.family if str(member.pid) not in listed] == []


def test_node_killed_over_all_of_them(
    start_node: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No worker outlives it by a second; the next node ends what is below them, and judges all."""
    node = start_node(NODE_APP, **NODE_SETTINGS, sweep_interval=15)
    handles, kin = hang_all(node, tmp_path)
    workers = [Seen(w.pid, w.start_ticks) for w in node.reader.workers(node.node_id())]
    assert len(workers) == len(HANGS)
    node.kill()
    killed_at = time.monotonic()
    eventually(lambda: not [one for one in workers if one.alive], 1, "every worker is gone")
    workers_s = time.monotonic() - killed_at
    orphans = [member for path in kin.values() for member in seen(path)]
    assert len(orphans) == len(HANGS) * FAMILY_SIZE

    node.start(wait=False)
    began = time.monotonic()
    eventually(lambda: not [one for one in orphans if one.alive], 10, "the families are gone")
    families_s = time.monotonic() - began
    running = "SELECT task_id FROM tasks WHERE state = 'RUNNING'"
    eventually(lambda: node.query(running) == [], 10, "all orphans are judged")
    judged_s = time.monotonic() - began
    with capsys.disabled():
        print(
            f"[workers gone after {workers_s:.2f} s, families {families_s:.2f} s and all judged"
            f" {judged_s:.2f} s after the next node's exec]", end=" ",
        )  # fmt: skip
    assert families_s < TAKE_OVER_S
    assert judged_s < TAKE_OVER_S
    node.wait_ready()
    for handle in handles.values():
        assert node.endings(handle.task_id) == [(TIMEOUT, "node_lost", PROOF, True)]
        assert node.moves(handle.task_id) == [*begun(), (RUNNING, TIMEOUT, "node", "node_lost")]
