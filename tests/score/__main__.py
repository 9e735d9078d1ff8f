"""The score of the autopsy: programs that are stuck for a known reason, and what it says of them.

`make autopsy-score ARGS="--only deadlock --repeat 3"`; with `--blind` the programs that the author
of the rules had not seen, with `--all` these and those. Exits with 1 when less than 90 % of the
first answers are right, when one is wrong and sure of itself, or when a healthy program is not
called healthy.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from score import table
from score.program import Program
from score.run import REPOSITORY, STAGE, bench_of, score
from score.verdict import Row, totals

PAGE = REPOSITORY / "docs" / "autopsy-score.md"
PROGRAMS = STAGE
BLIND = STAGE.with_name("blind")


def main(argv: Sequence[str] | None = None) -> int:
    """Score one directory or two; return the exit code."""
    options = _parser().parse_args(argv)
    directories = [PROGRAMS, BLIND] if options.all else [options.dir]
    # All are scored, also after one that is not good.
    results = [_is_good(directory, options) for directory in directories]
    return 0 if all(results) else 1


def _is_good(directory: Path, options: argparse.Namespace) -> bool:
    """Score a directory and tell the result; say whether it is what is asked for."""
    shows = not options.json

    def tell(row: Row) -> None:
        if shows:
            print(table.line(row), flush=True)

    if shows:
        print(table.HEAD)
    with bench_of(directory, options.bundles, options.autopsy, options.path) as bench:
        rows = score(bench, options.only, options.repeat, tell)
    total = totals(rows)
    if options.json:
        print(json.dumps({"rows": [asdict(row) for row in rows], "totals": asdict(total)}))
    else:
        print("\n".join(table.summary(rows)))
    if options.write:
        _write(rows, bench.programs, is_blind=directory == BLIND)
    return total.is_good


def _write(rows: Sequence[Row], programs: Sequence[Program], *, is_blind: bool) -> None:
    """Write one part of the page, the other one stays as it is."""
    own, heading, blind = PAGE.read_text().partition(table.BLIND)
    if is_blind:
        heading, blind = table.BLIND, table.blind_part(rows, programs)
    else:
        own = table.page(rows, programs)
    PAGE.write_text(own.rstrip("\n") + "\n" + ("\n" if heading else "") + heading + blind)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make autopsy-score", description=__doc__)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--dir", type=Path, default=PROGRAMS, help="the programs to score")
    which.add_argument(
        "--blind",
        dest="dir",
        action="store_const",
        const=BLIND,
        help="score those that the rules were not written with",
    )
    which.add_argument("--all", action="store_true", help="score both")
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--repeat", type=int, default=1, help="examine each so many times")
    parser.add_argument("--bundles", type=Path, help="keep the bundle of each case here")
    parser.add_argument(
        "--autopsy", type=Path, default=REPOSITORY, help="where the autopsy package to score lies"
    )
    parser.add_argument("--path", type=Path, help="more that the programs may import")
    parser.add_argument("--write", action="store_true", help="write docs/autopsy-score.md")
    parser.add_argument("--json", action="store_true", help="print JSON, a line for a directory")
    return parser


if __name__ == "__main__":
    sys.exit(main())
