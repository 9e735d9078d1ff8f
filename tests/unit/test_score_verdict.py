"""The score of the autopsy: what a program says of itself, what an answer is worth, the totals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from score import table
from score.__main__ import BLIND
from score.program import Program, program_of, programs_of
from score.run import fits
from score.verdict import Row, Totals, Verdict, judged, totals

from autopsy.cause import Code

EVIDENCE = ("process: it sleeps",)
SLEEPS = Program(Path("/p/sleeps.py"), ("blocked.sleep",), "it sleeps.", "")


def judge(*answers: tuple[str, float], control: bool = False) -> Row:
    expected = ["none.idle"] if control else ["blocked.sleep"]
    given = [(code, confidence, EVIDENCE) for code, confidence in answers]
    return judged("case", expected, control, given, 300.0)


@pytest.mark.parametrize(
    ("text", "expected", "why", "needs"),
    [
        ('"""DIAGNOSIS blocked.sleep: it sleeps."""', ("blocked.sleep",), "it sleeps.", ""),
        (
            '"""DIAGNOSIS busy.python|busy.livelock: two\nlines.\n\nAnd more."""',
            ("busy.python", "busy.livelock"),
            "two lines.",
            "a processor",
        ),
        (
            '"""DIAGNOSIS none.idle (control): it waits"""\nimport redis',
            ("none.idle",),
            "(control): it waits",
            "servers",
        ),
    ],
)
def test_the_docstring_says_what_is_right(
    text: str, expected: tuple[str, ...], why: str, needs: str
) -> None:
    path = Path("/p/case.py")
    assert program_of(path, text) == Program(path, expected, why, needs)


def test_a_program_that_says_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="the docstring does not begin"):
        program_of(Path("/p/case.py"), '"""It sleeps."""')


def test_only_what_is_healthy_is_a_control() -> None:
    assert not SLEEPS.is_control
    assert replace(SLEEPS, expected=("none.idle", "none.progressing")).is_control
    assert not replace(SLEEPS, expected=("none.exited",)).is_control


def test_an_exit_and_a_growth_are_looked_at_while_they_happen() -> None:
    assert SLEEPS.settle_s(1.0) == 1.0
    assert replace(SLEEPS, expected=("none.exited",)).settle_s(1.0) == 0.0
    assert replace(SLEEPS, expected=("leak.memory_native",)).settle_s(1.0) == 0.2


@pytest.mark.parametrize(
    ("answers", "verdict", "rank"),
    [
        ([("blocked.sleep", 0.4)], Verdict.RIGHT, 1),
        ([("unknown", 0.0), ("blocked.sleep", 0.4)], Verdict.WRONG, 2),
        ([("busy.python", 0.79)], Verdict.WRONG, 0),
        ([("busy.python", 0.8)], Verdict.SURELY_WRONG, 0),
        ([], Verdict.WRONG, 0),
    ],
)
def test_the_first_answer_counts(
    answers: list[tuple[str, float]], verdict: Verdict, rank: int
) -> None:
    row = judge(*answers)
    assert (row.verdict, row.rank) == (verdict, rank)


def test_the_totals_leave_out_what_cannot_run() -> None:
    right, wrong = judge(("blocked.sleep", 0.9)), judge(("busy.python", 0.9))
    rows = [
        *[replace(right, ms=float(ms)) for ms in range(1, 19)],
        replace(wrong, ms=2000.0),
        judge(("none.progressing", 0.3), control=True),
        replace(right, verdict=Verdict.NOT_RUN, ms=0.0),
    ]
    assert totals(rows) == Totals(
        rows=20,
        right=18,
        surely_wrong=1,
        controls=1,
        controls_healthy=1,
        not_run=1,
        p50_ms=10.0,
        p95_ms=300.0,
        max_ms=2000.0,
    )


@pytest.mark.parametrize(
    ("right", "surely_wrong", "healthy", "good"),
    [(18, 0, 3, True), (17, 0, 3, False), (18, 1, 3, False), (18, 0, 2, False)],
)
def test_a_good_score_keeps_every_bound(
    right: int, surely_wrong: int, healthy: int, good: bool
) -> None:
    assert Totals(20, right, surely_wrong, 3, healthy, 0, 1.0, 1.0, 1.0).is_good is good


def test_nothing_scored_is_not_good() -> None:
    assert totals([]) == Totals(0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0)
    assert not totals([]).is_good


def test_the_page_shows_every_case_and_what_was_not_run() -> None:
    right = replace(judge(("blocked.sleep", 0.85)), case="sleeps")
    gone = replace(right, case="gone", verdict=Verdict.NOT_RUN, evidence=("no FUSE",))
    page = table.page([right, gone], [SLEEPS, replace(SLEEPS, path=Path("/p/gone.py"))])
    line = "| `sleeps` | it sleeps. | `blocked.sleep` | `blocked.sleep` 0.85 | 1 | 300 | right |"
    assert line in page.splitlines()
    assert "Not run: `gone` (no FUSE)." in page.splitlines()
    assert "- first right: 1 of 1 (100.0 %)" in page.splitlines()


def test_every_blind_program_names_codes_that_exist() -> None:
    programs = programs_of(BLIND)
    unknown = {one.name: one.expected for one in programs if not set(one.expected) <= set(Code)}
    assert unknown == {}
    assert len(programs) >= 273
    assert all(one.why for one in programs)


def test_two_programs_at_a_time_while_one_computes_else_three() -> None:
    work = replace(SLEEPS, expected=("busy.python",))
    assert fits(work, [SLEEPS], [])
    assert not fits(work, [SLEEPS, SLEEPS], [])
    assert not fits(work, [replace(SLEEPS, expected=("none.idle", "none.progressing"))], [])
    assert fits(SLEEPS, [work], [])
    assert not fits(SLEEPS, [work, SLEEPS], [])
    assert not fits(SLEEPS, [SLEEPS], [work]), "its place is kept"
    assert fits(SLEEPS, [SLEEPS, SLEEPS], [SLEEPS])
    assert not fits(SLEEPS, [SLEEPS, SLEEPS, SLEEPS], [])


def test_programs_have_the_servers_for_themselves() -> None:
    asks = replace(SLEEPS, needs="servers")
    assert fits(asks, [SLEEPS], [])
    assert not fits(asks, [asks], [])


def test_the_part_of_the_blind_programs_lists_only_what_is_not_right() -> None:
    right = replace(judge(("blocked.sleep", 0.85)), case="sleeps")
    wrong = replace(judge(("unknown", 0.2)), case="naps")
    gone = replace(right, case="gone", verdict=Verdict.NOT_RUN, evidence=("no FUSE",))
    programs = [replace(SLEEPS, path=Path(f"/p/{name}.py")) for name in ("sleeps", "naps", "gone")]
    lines = table.blind_part([right, wrong, gone], programs).splitlines()
    assert "- first right: 1 of 2 (50.0 %)" in lines
    listed = [line for line in lines if line.startswith(("- `", "Not run"))]
    assert listed == [
        "- `naps` (it sleeps): wrong, `unknown` 0.20 instead of `blocked.sleep`",
        "Not run: `gone` (no FUSE).",
    ]
