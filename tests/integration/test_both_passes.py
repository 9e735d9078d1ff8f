"""`make test` itself: what runs beside others, what alone, and that a failure of any counts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from harness import REPOSITORY

SETTINGS = """
[tool.pytest.ini_options]
addopts = "-ra --strict-markers -p no:cacheprovider -p no:schemathesis -p no:hypothesispytest"
markers = ["alone: not beside others", "light: beside one other"]
"""
#: Each test says in which process it ran, and whether that is one of several.
NOTE = """
import os, pathlib, pytest
def note(name):
    side = "alone" if "PYTEST_XDIST_WORKER" not in os.environ else "beside"
    (pathlib.Path(__file__).parent / f"{name}.ran").write_text(side)
"""
BESIDE = "def test_{0}():\n    note('{0}')\n"
ALONE = "@pytest.mark.alone\n" + BESIDE
LIGHT = "@pytest.mark.light\n" + BESIDE.format("light")
FAILS = "def test_fails():\n    note('fails')\n    assert False\n"
SKIPS = "def test_skips():\n    pytest.skip('not here')\n"
SKIPS_WHOLE = "pytest.skip('none of it', allow_module_level=True)\n"


def run(
    root: Path, files: dict[str, Sequence[str]], *args: str
) -> tuple[int, dict[str, str], list[str]]:
    """Return the exit code, which test ran how, and the lines of the summary."""
    (root / "pyproject.toml").write_text(SETTINGS)
    for name, parts in files.items():
        (root / f"test_{name}.py").write_text(NOTE + "".join(parts))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "tools.run_tests", "-q", "-p", "tools.pytest_no_skip", *args],
        cwd=root, env={**environment, "PYTHONPATH": str(REPOSITORY), "TEST_PROCESSES": "2"},
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    ran = {path.stem: path.read_text() for path in root.glob("*.ran")}
    print(done.stdout, done.stderr)
    (summary,) = [line for line in done.stdout.splitlines() if "min ====" in line]
    told = [re.sub(r", \d+:\d\d min", "", one) for one in summary.strip("= ").split("; ")]
    return done.returncode, ran, told


def test_both_passes(tmp_path: Path) -> None:
    files = {"a": [BESIDE.format("a"), ALONE.format("b")], "c": [BESIDE.format("c"), LIGHT]}
    assert run(tmp_path, files) == (
        0,
        {"a": "beside", "b": "alone", "c": "beside", "light": "beside"},
        ["side by side, up to 2: passed", "two by two: passed", "one by one: passed"],
    )


FAILURES = {
    "beside": ([FAILS, ALONE.format("b")], "FAILED (1)", "passed"),
    "alone": ([BESIDE.format("a"), "@pytest.mark.alone\n" + FAILS], "passed", "FAILED (1)"),
    "a skip beside, and one alone": (
        [SKIPS, "@pytest.mark.alone\n" + SKIPS.replace("skips", "skips_alone")],
        "FAILED (1)",
        "FAILED (1)",
    ),
    "a module that skips itself": ([SKIPS_WHOLE], "FAILED (1)", "nothing to run"),
}


@pytest.mark.parametrize(("parts", "beside", "alone"), FAILURES.values(), ids=FAILURES)
def test_a_failure_of_either_is_one_of_the_run(
    tmp_path: Path, parts: Sequence[str], beside: str, alone: str
) -> None:
    code, _, told = run(tmp_path, {"a": parts, "other": [BESIDE.format("x")]})
    assert (code, told) == (
        1,
        [
            f"side by side, up to 2: {beside}",
            "two by two: nothing to run",
            f"one by one: {alone}",
        ],
    )
