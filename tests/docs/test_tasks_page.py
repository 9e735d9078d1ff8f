"""docs/tasks.md: its table has every option of the decorator, and its tests pass as they stand."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

from doc_text import REPOSITORY, blocks

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
