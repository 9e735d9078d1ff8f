"""A node as process 1 of its own pid namespace, as in a container without an init.

Collected only where this user may make such a namespace.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from harness import (
    PENDING,
    RUNNING,
    SUCCESS,
    TIMEOUT,
    NodeUnderTest,
    Start,
    begun,
    eventually,
    seen,
)

from supervisor.model.states import State
from supervisor.worker import tree

UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child=KILL")


def may_unshare() -> bool:
    try:
        return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def inner(node: NodeUnderTest) -> int:
    """Return the pid of the node as we see it from outside."""
    (pid,) = tree.children(node.pid)
    return pid


def alone(node: NodeUnderTest) -> bool:
    """Say whether below the node live zygote and two workers, and nothing waits to be reaped."""
    below = tree.children(inner(node))
    return len(below) == 3 and all(tree.is_alive(pid) for pid in below)


if may_unshare():

    def test_as_process_one(start_node: Start, tmp_path: Path) -> None:
        """Families, daemons, kills and crashes: it reaps them all, and stops in order."""
        node = start_node(run=False, prefix=UNSHARE)
        node.start(wait=False)
        handles = {
            "ok": node.submit("ok"),
            "family": node.submit("family", path=str(tmp_path / "kin")),
            "nap": node.submit("nap"),
            "crash": node.submit("crash", how="exit", path=str(tmp_path / "crash")),
        }
        ended = {kind: handle.wait(30) for kind, handle in handles.items()}
        assert {kind: (str(v.state), v.reason) for kind, v in ended.items()} == {
            "ok": (SUCCESS, "returned"),
            "family": (SUCCESS, "returned"),
            "nap": (TIMEOUT, "timeout"),
            "crash": (SUCCESS, "returned"),
        }
        assert node.bundle(handles["nap"].task_id).heading.diagnosis
        assert len(seen(tmp_path / "kin")) == 6
        eventually(lambda: alone(node), 5, "zygote and workers are all that is left")
        os.kill(inner(node), signal.SIGTERM)
        assert node.wait_exit(10) == 0
        assert node.events("node.stopped")[0]["left_behind"] == 0

    def test_lost_in_another_namespace(start_node: Start) -> None:
        """Its pids prove nothing here: its attempt is judged by lock and safety interval."""
        node = start_node(run=False, prefix=UNSHARE, requeue_safety=1.5)
        node.start(wait=False)
        handle = node.submit("sleep", s=1.0)
        node.started(handle, 20)
        os.kill(inner(node), signal.SIGKILL)
        node.wait_exit(5)
        node.prefix = ()
        node.start()
        ready_at = time.monotonic()
        assert handle.state() is State.RUNNING
        eventually(lambda: node.attempts(handle.task_id)[0].ended_at, 5)
        assert time.monotonic() - ready_at > 0.5
        assert handle.wait(10).state is State.SUCCESS
        assert node.moves(handle.task_id)[:4] == [
            *begun(), (RUNNING, TIMEOUT, "node", "node_lost"), (TIMEOUT, PENDING, "node", "retry"),
        ]  # fmt: skip
        assert node.endings(handle.task_id)[0] == (
            TIMEOUT, "node_lost", "the store's lock is ours and the safety interval is over", True,
        )  # fmt: skip
