"""The store is locked, deleted or replaced under a running node: no task pays for it."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from harness import (
    FAILED,
    PENDING,
    RUNNING,
    SUCCESS,
    TIMEOUT,
    NodeUnderTest,
    Start,
    begun,
    eventually,
)

from supervisor.errors import StoreUnavailable
from supervisor.model.states import State


def test_locked_for_three_seconds(start_node: Start, tmp_path: Path) -> None:
    """Nobody is killed for it, limits still hold, and every ending is written afterwards."""
    node = start_node(workers=4)
    healthy = [node.submit("sleep", s=s) for s in (1.0, 1.5)]
    polite = node.submit("polite", spec={"soft_timeout": 1.5}, path=str(tmp_path / "polite"))
    hopeless = node.submit("nap")
    for handle in (*healthy, polite, hopeless):
        node.started(handle)
    more = [node.submit("ok", value=n) for n in range(20)]
    with node.store_locked():
        began = time.monotonic()
        time.sleep(1.0)
        assert node.get("/healthz")[0] == 200
        eventually(lambda: (tmp_path / "polite").exists(), 3, "a soft limit is told meanwhile")
        time.sleep(max(0.0, 3 - (time.monotonic() - began)))
    for handle in healthy:
        assert handle.wait(10).state is State.SUCCESS
        assert node.moves(handle.task_id) == [*begun(), (RUNNING, SUCCESS, "node", "returned")]
    view = polite.wait(10)
    assert (view.state, view.reason) == (State.TIMEOUT, "soft_timeout")
    assert hopeless.wait(10).state is State.TIMEOUT
    assert node.endings(hopeless.task_id) == [(TIMEOUT, "timeout", "exited", True)]
    assert node.bundle(hopeless.task_id).heading.why == "ran past its time limit"
    for handle in more:
        assert handle.wait(10).state is State.SUCCESS
    assert [e["verdict"] for e in node.events("worker.killed")] == ["timeout"]
    assert node.events("loop.lagged") == []
    eventually(lambda: node.get("/readyz")[0] == 200, 3)


def test_submit_while_locked_waits_its_turn(start_node: Start) -> None:
    node = start_node()
    handle = node.submit("ok")
    handle.wait(5)
    with node.store_locked():
        answer = node.cli("list", "--json")  # reading needs no lock
        assert answer.returncode == 0
        assert handle.task_id in answer.stdout


def rescued(root: Path) -> Path:
    (path,) = root.glob("tasks.db.*.rescued")
    return path


def delete_store(node: NodeUnderTest) -> None:
    for name in ("tasks.db", "tasks.db-wal", "tasks.db-shm"):
        (node.store_path.parent / name).unlink(missing_ok=True)


def test_deleted_while_running(start_node: Start) -> None:
    """Noticed at once: the data is saved beside it, the node says where and exits; none is lost."""
    node = start_node(drain_grace=0.5)
    done = node.submit("ok", value="kept")
    done.wait(5)
    running = node.submit("sleep")
    node.started(running)
    waiting = node.submit("ok", spec={"run_after": "2999-01-01T00:00:00Z"})
    last = [node.submit("ok", value=n) for n in range(50)]  # written a moment before
    delete_store(node)
    with pytest.raises(StoreUnavailable, match=r"tasks\.db was deleted"):  # no task of ours is lost
        node.submit("ok")

    assert node.wait_exit(10) == 1
    saved = rescued(node.root)
    assert str(saved) in node.log_text()
    assert f"remedy: Its data was saved at {saved}: put it back" in node.log_text()
    assert [e["path"] for e in node.events("store.rescued")] == [str(saved)]
    assert not node.store_path.exists(), "no empty store was put in its place"

    shutil.copy(saved, node.store_path)
    node.start()
    assert {handle.wait(10).state for handle in last} == {State.SUCCESS}
    assert node.submit("ok").wait(5).state is State.SUCCESS
    assert done.view().result_json == '"kept"'
    assert waiting.state() is State.PENDING
    assert node.moves(running.task_id)[:4] == [  # its ending went to the saved file
        *begun(), (RUNNING, FAILED, "node", "shutdown"), (FAILED, PENDING, "node", "requeued"),
    ]  # fmt: skip
    node.app.cancel(running.task_id, by="anna", reason="over")
    assert running.wait(5).state is State.CANCELED


def test_deleted_with_its_folder(start_node: Start) -> None:
    """The folder is made anew for what is saved."""
    node = start_node(run=False)
    folder = node.root / "state"
    folder.mkdir()
    node.move_store(folder / "tasks.db")
    node.start()
    handle = node.submit("ok", value="kept")
    handle.wait(5)
    shutil.rmtree(folder)
    assert node.wait_exit(10) == 1
    saved = rescued(folder)
    assert f"remedy: Its data was saved at {saved}" in node.log_text()
    os.replace(saved, node.store_path)
    node.start()
    assert handle.view().result_json == '"kept"'


def test_replaced_while_running(start_node: Start) -> None:
    """Another file under the same name is not ours: it stays as it is."""
    node = start_node()
    node.run("ok")
    node.app.client.close()
    other = node.root / "other.db"
    other.write_bytes(b"not a store")
    os.replace(other, node.store_path)
    assert node.wait_exit(10) == 1
    assert node.store_path.read_bytes() == b"not a store"
    assert rescued(node.root).stat().st_size > 10_000


def test_read_only_store_is_refused_at_start(start_node: Start, tmp_path: Path) -> None:
    """A path that cannot hold a store: exit 69 with what to do."""
    node = start_node(run=False)
    (tmp_path / "file").write_text("x")
    node.env["SUPERVISOR_STORE"] = f"sqlite:///{tmp_path / 'file' / 'tasks.db'}"
    node.start(wait=False)
    assert node.wait_exit(30) == 69
    assert "remedy" in node.log_text()


def test_ending_of_a_crash_survives_a_lock(start_node: Start) -> None:
    node = start_node(workers=1)
    handle = node.submit("sleep", spec={"max_retries": 0})
    node.started(handle)
    pid = node.attempts(handle.task_id)[0].pid
    with node.store_locked():
        os.kill(pid, 9)
        eventually(lambda: node.events("worker.exited"), 3, "it is reaped meanwhile")
        time.sleep(0.5)
    assert handle.wait(5).state is State.FAILED
    assert node.endings(handle.task_id) == [(FAILED, "killed_by_signal", "exited", True)]
