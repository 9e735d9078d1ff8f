"""Many workers born at once: each is the node's own child and holds nothing of another's."""

from __future__ import annotations

import os
import stat
from itertools import combinations
from pathlib import Path

from harness import NodeUnderTest, Start, eventually

from supervisor.model.states import State
from supervisor.worker import tree
from supervisor.worker.main import Plumbing

WORKERS = 40
FORK_FAILS_ONCE = """
import os
from pathlib import Path
from supervisor import App
app = App()
failed, real, calls = Path({mark!r}), os.fork, []
def fork():
    calls.append(1)
    if len(calls) == 3 and not failed.exists():
        failed.touch()
        raise BlockingIOError(11, "no process left")
    return real()
os.fork = fork
@app.task()
def greet(ctx): return "hello"
"""


def lines_of(pid: int) -> set[tuple[int, int]]:
    """Return the sockets and the files in memory that a worker has open."""
    found = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{name}"
        status = os.stat(path)
        if stat.S_ISSOCK(status.st_mode) or os.readlink(path).startswith("/memfd:"):
            found.add((status.st_dev, status.st_ino))
    return found


def test_forty_workers_at_once(start_node: Start) -> None:
    node = start_node(workers=WORKERS)
    pids = eventually(lambda: ready_pids(node, WORKERS), 20)
    assert set(pids) <= set(tree.children(node.pid))
    assert {os.getsid(pid) == pid for pid in pids} == {True}
    lines = [lines_of(pid) for pid in pids]
    assert {len(held) for held in lines} == {len(Plumbing._fields)}
    assert [pair for pair in combinations(lines, 2) if pair[0] & pair[1]] == []
    assert node.events("spawn.failed") == []
    assert node.stop() == 0
    ends = [event["exit"] for event in node.events("worker.exited")]
    assert ends == ["exited with code 0"] * WORKERS


def ready_pids(node: NodeUnderTest, number: int) -> list[int]:
    """Return the workers once so many are ready (they are recorded then)."""
    rows = node.query("SELECT pid FROM workers WHERE ended_at IS NULL")
    return [pid for (pid,) in rows] if len(rows) == number else []


def test_fork_that_fails_halfway(start_node: Start, tmp_path: Path) -> None:
    """Those before it live, those behind it are told as not born and asked for again."""
    app = FORK_FAILS_ONCE.format(mark=str(tmp_path / "failed"))
    (tmp_path / "forkless.py").write_text(app)
    node = start_node("forkless:app", workers=4, pythonpath_extra=tmp_path)
    pids = eventually(lambda: ready_pids(node, 4), 20)
    assert set(pids) <= set(tree.children(node.pid))
    errors = [event["error"] for event in node.events("spawn.failed")]
    assert 1 <= len(errors) <= 3
    assert set(errors) == {"the second fork failed"}
    assert {node.run("greet").state for _ in range(4)} == {State.SUCCESS}
