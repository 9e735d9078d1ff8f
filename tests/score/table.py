"""The score as lines of text, for a terminal and for a page."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Sequence

from score.program import Program
from score.verdict import BOUND_RATIO, SURE, Row, Totals, Verdict, totals

_INTRODUCTION = f"""\
# Score of the autopsy

Written by `make autopsy-score ARGS=--write`. {{count}} small programs, each stuck for one known
reason ([tests/programs/stuck](../tests/programs/stuck/)), are started at most three at a time (two
where one of them computes), with a PostgreSQL and a Redis of their own. A second after a program
says that it is stuck, `autopsy PID --json` examines it, as a person would: a process of its own,
the default budget, no agent in the program, no word about what it is.

*First right* means that the first diagnosis is the one that the program's docstring names.
*Confident wrong* is a wrong first diagnosis with a confidence of {SURE} or more. The command exits
with 1 below {100 * BOUND_RATIO:.0f} % first right, on any confident wrong answer, and when a
healthy program (`control_*`) is called anything but `none.*`; the test in CI fails then, too. What
each code means, [diagnoses](diagnoses.md) say.

## Result

"""
_NOTES = """
## How far to trust it

- The rules were written with programs like these at hand, so this shows that what is known is
  recognised; what becomes of others, the blind programs below show. A cause that nobody has thought
  of can do no better than `unknown`: look at the confidence and the evidence, which are printed
  with every answer.
- The measured time is that of the whole capture; a quarter of a second of it is the wait between
  two looks at the process. Starting the command adds 0.1 s.
- Two threads that give way to each other (`livelock_*`) look like a busy loop when both looks meet
  the same one; on a machine whose processors are all taken a busy program may read as
  `starved.host`. The bound leaves room for this, no program is left out for it.
- `--repeat N` examines every program N times, `--only NAME` some, `--dir DIRECTORY` programs of
  your own: the first line of a docstring is `DIAGNOSIS <code>[|<code>]: why`, and the program
  writes `READY <pid>` to the file named by the variable `STUCK_READY`. `--bundles DIRECTORY` keeps
  what was seen.

## What cannot be run everywhere

A program that finds its machine lacking says so; it is listed below the table and not counted.

| programs | need |
|---|---|
| `disk_server_dead` | `/dev/fuse`, and the right to mount (root in most containers) |
| `stopped_frozen` | the right to make a control group, version 1 (freezer) or 2 |
| `gil_kept_*`, `native_*`, `leak_native_memory`, `vfork_*` | a C compiler |
| `postgresql_*`, `redis_*` | PostgreSQL and Redis installed; without them there is no score |

Of the blind programs, `scan_dead_mount` and `launch_in_dead_cwd` need `/dev/fuse`, `*_frozen` and
`freezer_forgotten` a freezer of version 1, `vfork_in_thread` a C compiler; `aio_requests_get`,
`close_wait_sessions` and `requests_half_body` need the package requests, which the project does not
(`--path DIRECTORY` says where it lies).
"""

#: Where the second part of the page begins.
BLIND = "## Blind programs\n"
_BLIND_INTRODUCTION = """
Written by `make autopsy-score ARGS="--blind --write"`. {count} more programs
([tests/programs/blind](../tests/programs/blind/)), written by somebody else than the rules: what
goes wrong in ordinary programs, with pools, brokers, drivers and the standard library. The author
of the rules saw a set only when its first look was over, and what it had shown then went into the
rules. So the first look tells what to expect of a program that the rules have never met; the
figures of now tell whether what they have met since is recognised and stays so. It takes too long
for CI, which only checks that every program can be read and that its right answers are codes that
exist.

| first look at | first right | confident wrong |
| --- | --- | --- |
| set a, 53 programs | 40 (75.5 %) | 1 |
| set b, 81 programs | 65 (80.2 %) | 4 |
| set c, 139 programs | 127 (91.4 %) | 3 |

Now, on this machine ({machine}):

"""


def line(row: Row) -> str:
    """Return one case as a line of a terminal."""
    rank = str(row.rank) if row.rank else "-"
    return (
        f"{row.case:36} {'|'.join(row.expected):34} {row.first:26} {row.confidence:4.2f}"
        f" {rank:>4} {row.ms:7.0f}  {row.verdict}"
    )


HEAD = f"{'case':36} {'expected':34} {'first answer':26} {'conf':4} {'rank':>4} {'ms':>7}  verdict"


def summary(rows: Sequence[Row]) -> list[str]:
    """Return the totals, and the evidence of what was not right."""
    wrong = [row for row in rows if row.verdict is not Verdict.RIGHT]
    lines = [f"  {row.case}: {text}" for row in wrong for text in row.evidence[:4]]
    return [*lines, "", *_unsteady(rows), *sentences(totals(rows))]


def _unsteady(rows: Sequence[Row]) -> list[str]:
    """Return how often each case was right that was examined more than once and not always was."""
    times = Counter(row.case for row in rows)
    right = Counter(row.case for row in rows if row.verdict is Verdict.RIGHT)
    return [
        f"{case}: right {right[case]} of {count} times"
        for case, count in times.items()
        if count > 1 and right[case] < count
    ]


def sentences(of: Totals) -> list[str]:
    """Return the totals in words."""
    return [
        f"first right: {of.right} of {of.rows} ({100 * of.right_ratio:.1f} %)",
        f"confident wrong: {of.surely_wrong}",
        f"controls called healthy: {of.controls_healthy} of {of.controls}",
        f"capture: p50 {of.p50_ms:.0f} ms, p95 {of.p95_ms:.0f} ms, max {of.max_ms:.0f} ms",
        f"cannot run here: {of.not_run}",
    ]


def page(rows: Sequence[Row], programs: Sequence[Program]) -> str:
    """Return the page of the documentation."""
    why = {program.name: program.why for program in programs}
    run = [row for row in rows if row.verdict is not Verdict.NOT_RUN]
    cells = [
        (
            f"`{row.case}`",
            why[row.case],
            " or ".join(f"`{code}`" for code in row.expected),
            f"`{row.first}` {row.confidence:.2f}",
            str(row.rank or "-"),
            f"{row.ms:.0f}",
            row.verdict,
        )
        for row in run
    ]
    missing = [f"\nNot run: `{r.case}` ({r.evidence[0]})." for r in rows if r not in run]
    head = (
        "program",
        "what is wrong",
        "right answer",
        "first answer",
        "rank of right",
        "ms",
        "verdict",
    )
    lines = [
        _INTRODUCTION.format(count=len(why)),
        f"- machine: {_machine()}\n",
        *(f"- {sentence}\n" for sentence in sentences(totals(rows))),
        "\n",
        *(f"| {' | '.join(line)} |\n" for line in [head, ["---"] * len(head), *cells]),
        *missing,
        _NOTES,
    ]
    return "".join(lines)


def blind_part(rows: Sequence[Row], programs: Sequence[Program]) -> str:
    """Return what the page says of the blind programs: the totals, and what is not right."""
    why = {program.name: program.why for program in programs}
    missed = [
        f"- `{row.case}` ({why[row.case].rstrip('.')}): {row.verdict}, `{row.first}`"
        f" {row.confidence:.2f} instead of {' or '.join(f'`{code}`' for code in row.expected)}\n"
        for row in rows
        if row.verdict not in {Verdict.RIGHT, Verdict.NOT_RUN}
    ]
    lines = [
        _BLIND_INTRODUCTION.format(count=len(why), machine=_machine()),
        *(f"- {sentence}\n" for sentence in sentences(totals(rows))),
        *(["\nNot right:\n\n", *missed] if missed else []),
        *(
            f"\nNot run: `{r.case}` ({r.evidence[0]}).\n"
            for r in rows
            if r.verdict is Verdict.NOT_RUN
        ),
    ]
    return "".join(lines)


def _machine() -> str:
    return (
        f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]},"
        f" CPython {platform.python_version()}"
    )
