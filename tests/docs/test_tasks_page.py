"""docs/tasks.md: its table has every option of the decorator, and its tests pass as they stand."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

from doc_text import REPOSITORY, blocks
from harness import Start, eventually

from supervisor.app import App, TypeLimits

PAGE = REPOSITORY / "docs" / "tasks.md"


def test_every_option_of_the_decorator_is_in_its_table() -> None:
    section = PAGE.read_text("utf-8").partition("## Declaring a type")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]*`) \|", section, re.MULTILINE)
    told = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    own = set(inspect.signature(App.task).parameters) - {"self", "body", "limits"}
    assert sorted(told) == sorted(own | set(TypeLimits.__annotations__))


def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    python = blocks(PAGE, "python")
    (testing,) = [block for block in python if "import pytest" in block.text]
    (tmp_path / "tasks.py").write_text(python[0].text, "utf-8")
    (tmp_path / "test_tasks.py").write_text(testing.text, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_tasks.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_what_the_example_says_is_in_the_metrics(start_node: Start) -> None:
    (example,) = [one for one in blocks(PAGE, "python") if "ctx.error_code(" in one.text]
    node = start_node(app="orders:app", run=False)
    (node.root / "orders.py").write_text(example.text, "utf-8")
    node.start()
    kind = ("type", "charge_orders")
    view = node.run("charge_orders", day="2026-11-30")
    assert (view.state, view.result_json) == ("SUCCESS", "8")
    step = "supervisor_task_step_duration_seconds_count"
    payments = ("service", "payments")
    told = {
        ("supervisor_task_counts_total", (("name", "orders"), kind)): 6,
        ("supervisor_task_counts_total", (("name", "skipped"), kind)): 1,
        ("supervisor_task_error_codes_total", (("code", "card_declined"), kind)): 1,
        (step, (("step", "load"), kind)): 1,
        (step, (("step", "charge"), kind)): 1,
        ("supervisor_call_duration_seconds_count", (payments,)): 7,
        ("supervisor_calls_total", (("outcome", "ok"), payments)): 7,
        ("supervisor_calls_total", (("outcome", "error"), payments)): 0,
        ("supervisor_call_in_flight", (payments,)): 0,
        ("supervisor_task_expected_duration_seconds", (kind,)): 2,
    }

    def shown() -> bool:
        found = node.metrics()
        return {key: found.get(key) for key in told} == told

    eventually(shown, what="all that the page promises")
