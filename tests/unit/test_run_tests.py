"""How `make test` divides what it is asked to run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.run_tests import outcome, passes

ORDER = ("--dist=loadfile", "--no-loadscope-reorder", "-o", "timeout_method=signal")
STEALING = ("--dist=worksteal", "-o", "timeout_method=signal")

#: arguments → processes
SPREAD = {
    "everything": ((), 3),
    "a directory": (("tests/unit", "-k", "settings"), 3),
    "by name": (("-q", "-p", "tools.pytest_no_skip", "-k", "settings"), 3),
    "one file": (("tests/unit/test_layers.py", "-x"), 0),
    "one test": (("tests/unit/test_layers.py::test_a[b]",), 0),
    "two tests of one file": (("tests/unit/test_layers.py::a", "tests/unit/test_layers.py::b"), 0),
    "two files": (("tests/unit/test_layers.py", "tests/unit/test_settings.py"), 2),
    "four files": (tuple(f"tests/unit/test_{name}.py" for name in "abcd"), 3),
    "a file and a directory": (("tests/unit/test_layers.py", "tests/docs"), 3),
}


@pytest.mark.parametrize(("args", "processes"), SPREAD.values(), ids=SPREAD)
def test_processes(args: tuple[str, ...], processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file needs none: it starts at once, and a debugger can be used in it."""
    monkeypatch.chdir(Path(__file__).parents[2])
    beside, pair, alone = passes(args, 3)
    same, two = "--continue-on-collection-errors", str(min(2, processes))
    most = ("-m", "not (alone or light)", same, "-n", str(processes), *ORDER, *args)
    assert beside.words == most
    assert pair.words == ("-m", "light", same, "-n", two, *STEALING, *args)
    assert alone.words == ("-m", "alone", same, *args)


OUTCOMES = {
    "all passed": ((0, 0, 0), 0),
    "one failed": ((1, 0, 0), 1),
    "another failed": ((0, 1, 0), 1),
    "the last failed": ((0, 0, 1), 1),
    "one had nothing to run": ((5, 0, 0), 0),
    "the others had nothing to run": ((1, 5, 5), 1),
    "none had anything to run": ((5, 5, 5), 5),
    "a usage error": ((4, 4, 4), 4),
    "ended by a signal": ((-9, 0, 0), 1),
}


@pytest.mark.parametrize(("codes", "expected"), OUTCOMES.values(), ids=OUTCOMES)
def test_outcome(codes: tuple[int, ...], expected: int) -> None:
    assert outcome(codes) == expected
