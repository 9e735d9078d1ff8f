"""Every program that is stuck for a known reason is examined as a user would; most are recognised.

The bound is that of `make autopsy-score`: which program misses it may differ from run to run (two
threads that give way to each other, a machine without a free processor), none is left out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from score import table
from score.__main__ import PROGRAMS
from score.run import bench_of, score
from score.verdict import BOUND_RATIO, Row, Verdict, totals
from servers import ServerMissing

#: Less than the command gives them, to save time.
SETTLE_S = 0.5
BUDGET_MS = 10_000
#: Of a quiet machine it is 2 s; here other things run beside it.
P95_MS = 4_000

pytestmark = [pytest.mark.timeout(300), pytest.mark.alone]


@pytest.fixture(scope="module")
def rows() -> Sequence[Row]:
    """The whole corpus of our own programs."""
    try:
        with bench_of(PROGRAMS, settle_s=SETTLE_S) as bench:
            return score(bench)
    except ServerMissing as exc:
        pytest.skip(str(exc))


def shown(rows: Sequence[Row]) -> str:
    """Return what a failure has to show: every case that is not right, and its evidence."""
    wrong = [row for row in rows if row.verdict is not Verdict.RIGHT]
    return "\n".join(["", table.HEAD, *map(table.line, wrong), *table.summary(rows)])


def test_nine_of_ten_first_answers_are_right(rows: Sequence[Row]) -> None:
    assert totals(rows).right_ratio >= BOUND_RATIO, shown(rows)


def test_no_wrong_answer_is_sure_of_itself(rows: Sequence[Row]) -> None:
    sure = [row.case for row in rows if row.verdict is Verdict.SURELY_WRONG]
    assert sure == [], shown(rows)


def test_healthy_programs_are_called_healthy(rows: Sequence[Row]) -> None:
    ill = [row.case for row in rows if row.control and not row.first.startswith("none.")]
    assert ill == [], shown(rows)


def test_every_program_runs_here_or_says_why_not(rows: Sequence[Row]) -> None:
    names = sorted(path.stem for path in PROGRAMS.glob("*.py") if path.name[0] != "_")
    assert [row.case for row in rows] == names
    missing = [row for row in rows if row.verdict is Verdict.NOT_RUN]
    assert len(missing) <= len(rows) * 0.15, shown(rows)


def test_captures_are_quick_and_keep_their_budget(rows: Sequence[Row]) -> None:
    total = totals(rows)
    assert total.max_ms <= BUDGET_MS, shown(rows)
    assert total.p95_ms <= P95_MS, shown(rows)


def test_no_process_of_a_program_is_left(rows: Sequence[Row]) -> None:
    left = [name for name in os.listdir("/proc") if name.isdigit() and _is_of_a_program(name)]
    assert left == [], f"after {len(rows)} cases"


def _is_of_a_program(pid: str) -> bool:
    # Another score on this machine has programs of its own: ours run below our temporary directory.
    try:
        environment = Path("/proc", pid, "environ").read_bytes().split(b"\0")
        directory = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return False
    return any(one.startswith(b"STUCK_MARK=") for one in environment) and "(deleted)" in directory
