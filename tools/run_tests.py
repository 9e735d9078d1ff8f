"""`make test`: the tests in three passes, most of them side by side, then one by one what must be.

    python -m tools.run_tests [ARGS OF PYTEST]

Most tests wait most of the time, so that a few files at once take far less time than one by one.
What measures time, fills the machine or sets what all share is marked `alone`. What only has to
wait on a machine that is not busy is marked `light`: two of these at once leave it so. Each pass
comes also after a failure in one before, and a failure in any is one of the run.
"""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

# More than the cores of a small machine: what they wait for is mostly no CPU.
PROCESSES = 3
# A module that cannot be imported is a failure, and not the end of all others.
_ALL_THE_SAME = ("--continue-on-collection-errors",)
#: Halves of the suite that take as long to import.
_HALVES = (
    ("tests/browser", "tests/docs", "tests/unit"),
    ("tests/chaos", "tests/contract", "tests/integration"),
)


@dataclass(frozen=True, slots=True)
class Pass:
    """One run of pytest."""

    title: str
    words: tuple[str, ...]


def passes(args: Sequence[str], at_most: int) -> tuple[Pass, Pass, Pass]:
    """Return the three passes for these arguments, in up to so many processes.

    One file alone needs no other process: it starts at once and a debugger can be used in it.
    """
    words = [one.partition("::")[0] for one in args]
    places = {one for one in words if one.endswith(".py") or Path(one).is_dir()}
    only_files = bool(places) and all(one.endswith(".py") for one in places)
    processes = min(at_most, len(places)) if only_files else at_most
    spread = ("-n", str(processes if processes > 1 else 0))
    pair = ("-n", "2" if processes > 1 else "0", "--dist=worksteal")
    # Whole files, which share their nodes, in the order that conftest.py gives them.
    order = ("--dist=loadfile", "--no-loadscope-reorder")
    # The other way ends the process of a test that takes too long, and pytest-xdist then waits for
    # it for ever.
    late = ("-o", "timeout_method=signal")
    return (
        Pass(
            f"side by side, up to {processes}",
            ("-m", "not (alone or light)", *_ALL_THE_SAME, *spread, *order, *late, *args),
        ),
        Pass("two by two", ("-m", "light", *_ALL_THE_SAME, *pair, *late, *args)),
        Pass("one by one", ("-m", "alone", *_ALL_THE_SAME, *args)),
    )


def outcome(codes: Sequence[int]) -> int:
    """Return the exit code of the run; a pass that had nothing to run says nothing about it."""
    ran = [code for code in codes if code != pytest.ExitCode.NO_TESTS_COLLECTED]
    failed = [code for code in ran if code]
    if not ran:
        return int(pytest.ExitCode.NO_TESTS_COLLECTED)
    return max(1, *failed) if failed else 0


def compile_all(args: Sequence[str]) -> None:
    """Compile once what hundreds of short programs and each process of pytest would compile."""
    for folder in ("supervisor", "autopsy", "tests/programs"):
        compileall.compile_dir(folder, quiet=2)
    if any(one.partition("::")[0].startswith("tests") for one in args):
        return  # a few modules
    halves = [[one for one in half if Path(one).is_dir()] for half in _HALVES]
    # pytest compiles test modules itself, with more in their assertions.
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-qq"]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    running = [
        subprocess.Popen([*collect, *half], env=environment, stdout=subprocess.DEVNULL)
        for half in halves
        if half
    ]
    for one in running:
        one.wait()  # what cannot be imported is told by the passes


def main(args: Sequence[str]) -> int:
    """Run all passes and tell how each went."""
    compile_all(args)
    told, codes = [], []
    for one in passes(args, int(os.environ.get("TEST_PROCESSES", PROCESSES))):
        print(f"\n==== tests that run {one.title} ====", flush=True)
        began = time.monotonic()
        command = [sys.executable, "-m", "pytest", *one.words]
        codes.append(subprocess.run(command, check=False).returncode)
        took_s = round(time.monotonic() - began)
        told.append(f"{one.title}: {_told(codes[-1])}, {took_s // 60}:{took_s % 60:02} min")
        if codes[-1] == pytest.ExitCode.INTERRUPTED:
            break
    print("\n==== " + "; ".join(told) + " ====", flush=True)
    return outcome(codes)


def _told(code: int) -> str:
    if code == pytest.ExitCode.NO_TESTS_COLLECTED:
        return "nothing to run"
    return f"FAILED ({code})" if code else "passed"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
