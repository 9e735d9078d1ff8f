"""What may go wrong around a node without taking it out of service."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing

from harness import NodeUnderTest, eventually

from supervisor.model.states import State

GOOD = "from supervisor import App\napp = App()\n@app.task\ndef ok(ctx):\n    return 1\n"


def test_a_broken_reload_changes_nothing_even_if_every_worker_dies_afterwards(
    start_node: Callable[..., NodeUnderTest],
) -> None:
    node = start_node("mine:app", run=False)
    module = node.root / "mine.py"
    module.write_text(GOOD)
    node.start()
    module.write_text("raise RuntimeError('broken on purpose')\n")
    node.signal(signal.SIGHUP)
    eventually(lambda: node.events("app.refused"), 10, "the broken app is refused")
    for pid in node.worker_pids():
        os.kill(pid, signal.SIGKILL)
    assert node.run("ok", timeout=10).state is State.SUCCESS
    assert node.events("restart.halted") == []
    assert node.get("/readyz")[0] == 200
    module.write_text(GOOD.replace("return 1", "return 2"))
    node.signal(signal.SIGHUP)
    eventually(lambda: node.run("ok").result_json == "2", 10, "the mended app is in force")


def test_any_trouble_of_the_store_is_shown_and_got_over(
    start_node: Callable[..., NodeUnderTest],
) -> None:
    node = start_node()
    handles = [node.submit("sleep", s=1) for _ in range(2)]
    for handle in handles:
        node.started(handle)
    with closing(sqlite3.connect(node.store_path, timeout=10)) as db:
        db.execute("ALTER TABLE audit_log RENAME TO hidden")
        eventually(lambda: node.get("/readyz")[0] == 503, 10, "the node says that it is not ready")
        assert "no such table" in node.get("/readyz")[1]
        db.execute("ALTER TABLE hidden RENAME TO audit_log")
    assert [handle.wait(15).state for handle in handles] == [State.SUCCESS] * 2
    assert node.run("sleep", s=0).state is State.SUCCESS
    assert node.get("/readyz")[0] == 200


def test_a_second_node_through_a_symlink_is_refused(
    start_node: Callable[..., NodeUnderTest],
) -> None:
    first = start_node()
    second = start_node(run=False)
    link = second.root / "link.db"
    link.symlink_to(first.store_path)
    second.env["SUPERVISOR_STORE"] = f"sqlite:///{link}"
    second.start(wait=False)
    assert second.wait_exit(15) == 1
    assert f"another node (pid {first.pid}) runs on this store" in second.log_text()
    assert first.reader.nodes()[0].ended_at is None
