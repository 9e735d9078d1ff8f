"""The command line beside a real node: what it announces, shows live, and leaves when killed."""

from __future__ import annotations

import json
from pathlib import Path

from harness import Start, eventually

from supervisor.cli.submit import UNCHECKED
from supervisor.model.states import State

APP = """
import time
from supervisor import App
app = App()

@app.task(queue="exports", max_retries=0)
def export(ctx, rows: int):
    print("begun")
    ctx.progress(2, rows)
    time.sleep(60)

@app.task
def tidy(ctx): ...
"""


def test_from_announcement_to_judgement(start_node: Start, tmp_path: Path) -> None:
    (tmp_path / "cli_node_app.py").write_text(APP)
    node = start_node("cli_node_app:app", pythonpath_extra=tmp_path)
    eventually(lambda: len(node.reader.types()) == 2, 5, "its types are announced")
    types = [(view.type, view.queue, view.node_id) for view in node.reader.types()]
    assert types == [("export", "exports", node.node_id()), ("tidy", None, node.node_id())]
    submitted = node.cli_json("submit", "export", "--param", "rows=5", "--max-retries", "0")
    task_id = submitted["tasks"][0]["task_id"]
    assert (submitted["notes"], node.cli_json("show", task_id)["queue"]) == ([UNCHECKED], "exports")
    node.started(node.app.get(task_id))
    progress = eventually(lambda: node.cli_json("show", task_id)["progress"])
    assert (progress["done"], progress["total"], 0 <= progress["still_s"] < 30) == (2.0, 5.0, True)

    pid = node.pid
    node.kill()
    assert node.cli_json("show", task_id)["node_gone"] is True
    assert f"  node       gone (pid {pid}): " in node.cli("show", task_id).stdout
    asked = node.cli("fail", task_id, "--reason", "x", "--json")
    assert json.loads(asked.stdout)["tasks"][0]["detail"] == (
        "no node runs: it takes effect when one starts"
    )
    waiting = node.cli_json("submit", "tidy")["tasks"][0]["task_id"]
    assert node.cli_json("show", waiting)["waits"] == [
        "no node runs: start one with `supervisor run`"
    ]

    node.start()
    assert node.app.get(task_id).wait(10).state is State.FAILED
    assert node.app.get(waiting).wait(10).state is State.SUCCESS
    assert node.cli_json("show", task_id)["node_gone"] is False
    shown = node.cli("show", task_id).stdout
    assert ", ran at most " in shown
    kept = node.cli("logs", task_id)
    assert (kept.returncode, kept.stdout, kept.stderr) == (
        0, "", "note: the output of attempt 1 was lost with its node\n",
    )  # fmt: skip
