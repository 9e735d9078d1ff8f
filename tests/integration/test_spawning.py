"""How workers come to be with something in the way: unforkable apps, lost zygotes, crash loops."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from harness import NodeUnderTest, Start, eventually

from supervisor.model.states import State

BODY = """
from supervisor import App
app = App()
@app.task()
def greet(ctx): return {greeting!r}
@app.task(timeout=1, soft_timeout=0.5, max_retries=0, interrupt=False)
def nap(ctx):
    import time
    time.sleep(600)
"""
THREAD = """
import threading
threading.Thread(target=threading.Event().wait, daemon=True, name="poller").start()
"""
#: The worker reseeds numpy's generator if the app has loaded it: one without `random` ends it.
DIES_AFTER_BIRTH = "import sys, types\nsys.modules['numpy'] = types.ModuleType('numpy')\n"
DIES_LATER = """
import os, threading, time
def die():
    time.sleep(2)
    os._exit(9)
os.register_at_fork(after_in_child=lambda: threading.Thread(target=die, daemon=True).start())
"""
DIES_IN_THE_FORK = "import os\nos.register_at_fork(after_in_child=lambda: os._exit(9))\n"


def write_app(where: Path, name: str, before: str = "", greeting: str = "hello") -> str:
    (where / f"{name}.py").write_text(before + BODY.format(greeting=greeting))
    return f"{name}:app"


def test_app_that_leaves_a_thread_is_execed(start_node: Start, tmp_path: Path) -> None:
    """It says so, and everything else works as ever: tasks, a kill, the replacement, the stop."""
    node = start_node(write_app(tmp_path, "threaded", THREAD), pythonpath_extra=tmp_path)
    assert node.run("greet").result_json == '"hello"'
    (told,) = node.events("app.unforkable")
    assert told["obstacles"] == ["thread 'poller' is running"]
    view = node.run("nap")
    assert (view.state, view.reason) == (State.TIMEOUT, "timeout")
    assert node.bundle(view.task_id).heading.diagnosis
    eventually(lambda: len(node.worker_pids()) == 2, 10, "the killed worker is replaced")
    assert {node.run("greet").state for _ in range(4)} == {State.SUCCESS}
    os.kill(node.worker_pids()[0], signal.SIGKILL)
    eventually(lambda: "crashed" in exits(node), 3)
    eventually(lambda: len(node.worker_pids()) == 2, 10, "and so is one that died")
    assert node.stop() == 0
    assert exits(node) == {"killed", "crashed", "stopped"}


def exits(node: NodeUnderTest) -> set[str]:
    return {e["reason"] for e in node.events("worker.exited")}


def test_spawn_exec_by_setting(start_node: Start) -> None:
    node = start_node(spawn="exec")
    pids = {node.run("quick_or_slow", s=0.1).result_json for _ in range(3)}
    assert pids <= {str(pid) for pid in node.worker_pids()}
    assert node.events("app.unforkable") == []
    handle = node.submit("sleep", spec={"max_retries": 0})
    node.started(handle)
    node.kill()
    eventually(lambda: not node.processes(), 1, "they die with the node, too")
    node.start()
    assert (handle.wait(5).state, handle.view().reason) == (State.TIMEOUT, "node_lost")


def test_lost_zygote(start_node: Start) -> None:
    """Running workers go on; the next birth comes from a new zygote."""
    node = start_node()
    handle = node.submit("sleep", s=2.0)
    node.started(handle)
    before = set(node.worker_pids())
    os.kill(node.zygote_pid(), signal.SIGKILL)
    eventually(lambda: node.events("spawn.failed"), 3)
    (idle,) = before - {node.attempts(handle.task_id)[0].pid}
    os.kill(idle, signal.SIGKILL)
    eventually(lambda: len(set(node.worker_pids()) - before) >= 1, 10, "a new worker is born")
    assert handle.wait(10).state is State.SUCCESS
    assert node.run("ok", value=1).state is State.SUCCESS
    eventually(lambda: len(node.worker_pids()) == 2, 10)
    assert node.get("/readyz")[0] == 200


@pytest.mark.parametrize("way", [DIES_AFTER_BIRTH, DIES_IN_THE_FORK])
def test_crash_loop_is_halted(start_node: Start, tmp_path: Path, way: str) -> None:
    """Births stop with an alarm, /readyz says why, the node answers, and tasks keep their tries."""
    app = write_app(tmp_path, "dies", way)
    node = start_node(app, run=False, pythonpath_extra=tmp_path, restart_intensity="4/60")
    node.start(wait=False)
    eventually(lambda: node.events("restart.halted"), 15, "births are halted")
    handle = node.submit("greet")
    status, body = node.get("/readyz")
    assert status == 503
    assert "workers die at their start: births are halted" in json.loads(body)["reasons"]
    began = time.monotonic()
    for path in ("/healthz", "/metrics"):
        assert node.get(path)[0] == 200
    assert node.app.pause("default", by="anna", reason="first mend the app")
    assert node.app.resume("default", by="anna", reason="mended")
    assert time.monotonic() - began < 5
    births = len(node.events("worker.spawned")) + len(node.events("spawn.failed"))
    assert births <= 12, "no storm"
    view = handle.view()
    assert (view.state, view.attempt, view.retry_count) == (State.PENDING, 0, 0)

    write_app(tmp_path, "dies", greeting="mended")
    node.signal(signal.SIGHUP)
    assert handle.wait(30).result_json == '"mended"'
    eventually(lambda: node.get("/readyz")[0] == 200, 10)
    assert node.events("restart.resumed")


def test_broken_app_at_the_start(start_node: Start, tmp_path: Path) -> None:
    """Refused at once with the reason and what to do; nothing was claimed."""
    (tmp_path / "broken.py").write_text("import nothing_of_this_name\n")
    node = start_node("broken:app", run=False, pythonpath_extra=tmp_path)
    waiting = node.submit("greet")
    node.start(wait=False)
    assert node.wait_exit(15) == 2
    assert "No module named 'nothing_of_this_name'" in node.log_text()
    assert "remedy" in node.log_text()
    assert (waiting.state(), waiting.view().attempt) == (State.PENDING, 0)


def test_recycling(start_node: Start) -> None:
    """A worker is replaced after so many tasks, and no task notices."""
    node = start_node(recycle_after_tasks=10)
    views = node.app.wait([node.submit("quick", n=n).task_id for n in range(100)], 30)
    assert {v.state for v in views} == {State.SUCCESS}
    assert {node.attempts(v.task_id)[-1].outcome for v in views} == {State.SUCCESS}
    per_worker = node.query(
        "SELECT count(*) FROM attempts WHERE reason = 'returned' GROUP BY worker_id ORDER BY 1 DESC"
    )
    assert per_worker[0][0] <= 10
    eventually(lambda: len(node.worker_pids()) == 2, 5)
    assert "recycled" in {e["reason"] for e in node.events("worker.exited")}


def test_births_share_no_chance(node: NodeUnderTest) -> None:
    """Two forks of one zygote do not draw the same random numbers."""
    drawn = [node.run("draw").result_json for _ in range(4)]
    pids = {json.loads(d or "")[0] for d in drawn}
    numbers = {json.loads(d or "")[1] for d in drawn}
    assert len(numbers) == len(drawn), (pids, drawn)


def test_reload_of_execed_workers(start_node: Start, tmp_path: Path) -> None:
    write_app(tmp_path, "threaded2", THREAD)
    node = start_node("threaded2:app", pythonpath_extra=tmp_path)
    assert node.run("greet").result_json == '"hello"'
    before = set(node.worker_pids())
    write_app(tmp_path, "threaded2", THREAD, greeting="new")
    node.signal(signal.SIGHUP)
    eventually(lambda: node.run("greet").result_json == '"new"', 10, "new code runs")
    eventually(
        lambda: len(node.worker_pids()) == 2 and before.isdisjoint(node.worker_pids()), 10,
        "all workers are of the new generation",
    )  # fmt: skip
    assert node.stop() == 0
    assert exits(node) == {"stopped"}


def test_workers_that_die_after_seconds(start_node: Start, tmp_path: Path) -> None:
    """Each is well for two seconds and then dies by itself: births are halted all the same."""
    app = write_app(tmp_path, "mortal", DIES_LATER)
    node = start_node(app, pythonpath_extra=tmp_path, restart_intensity="4/60")
    assert node.run("greet").result_json == '"hello"'
    eventually(lambda: node.events("restart.halted"), 20, "births are halted")
    births = len(node.events("worker.spawned"))
    time.sleep(3)
    assert len(node.events("worker.spawned")) <= births + 4
    assert births <= 10
    assert node.get("/healthz")[0] == 200


def test_one_type_that_ends_its_workers(start_node: Start) -> None:
    """It waits, and the other types go on as if nothing were; a canceled one ends at once."""
    node = start_node(workers=2, restart_intensity="4/60", max_crashes=100, retry_base=0.05)
    crashing = [node.submit("crash") for _ in range(30)]
    eventually(lambda: node.events("type.held"), 10, "the type is held")
    began = time.monotonic()
    others = [node.submit("ok", value=n) for n in range(20)]
    for handle in others:
        assert handle.wait(15).state is State.SUCCESS
    assert time.monotonic() - began < 15
    status, body = node.get("/readyz")
    assert (status, json.loads(body)["reasons"]) == (200, [])
    time.sleep(5)
    births = len(node.events("worker.spawned"))
    assert births <= 2 + 3 * 7, "no storm"
    assert node.events("restart.halted") == []
    assert [e["wait_s"] for e in node.events("type.held")][:2] == [2.0, 4.0]
    for handle in crashing:
        handle.cancel(by="anna", reason="a bad build")
    for handle in crashing:
        assert handle.wait(5).state is State.CANCELED
