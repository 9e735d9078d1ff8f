"""Many writers and readers on one file: no task fails for it, and each runs once."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from harness import REPOSITORY, Start, eventually

from supervisor.model.states import State

SUBMITTER = """
import sys
from supervisor import App
app = App(store=sys.argv[1])
for n in range(150):
    app.submit({"type": "quick", "params": {"n": n, "path": sys.argv[2]}})
app.client.close()
"""
READER = """
import sys, time
from supervisor import App
from supervisor.clock import SystemClock
app, clock = App(store=sys.argv[1]), SystemClock()
for _ in range(60):
    app.client.reader.tasks(); app.client.reader.counts(clock.now()); app.client.reader.nodes()
    clock.sleep(0.02)
app.client.close()
"""


def test_submitters_readers_and_a_vacuum(start_node: Start, tmp_path: Path) -> None:
    node = start_node(workers=4)
    path = tmp_path / "ran"
    arguments = (node.url, str(path))
    programs = [
        subprocess.Popen([sys.executable, "-c", text, *arguments], cwd=REPOSITORY, env=node.env)
        for text in (SUBMITTER, SUBMITTER, SUBMITTER, READER, READER)
    ]  # fmt: skip
    eventually(lambda: path.exists(), 10)
    for _ in range(5):
        with node.store_locked():
            time.sleep(0.1)
        time.sleep(0.1)
    assert [program.wait(60) for program in programs] == [0] * 5
    ids = [row[0] for row in node.query("SELECT task_id FROM tasks")]
    assert len(ids) == 450
    views = node.app.wait(ids, 60)
    assert {view.state for view in views} == {State.SUCCESS}
    ran = path.read_text().splitlines()
    assert len(ran) == 450, "each ran once"
    assert node.events("loop.failed") == []
    assert node.query("SELECT count(*) FROM attempts WHERE reason = 'returned'") == [(450,)]
