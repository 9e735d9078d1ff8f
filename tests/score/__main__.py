"""The score of the autopsy: programs that are stuck for a known reason, and what it says of them.

`make autopsy-score ARGS="--only deadlock --repeat 3"`. Exits with 1 when less than 90 % of the
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
from score.run import REPOSITORY, bench_of, score
from score.verdict import Row, totals

PAGE = REPOSITORY / "docs" / "autopsy-score.md"
PROGRAMS = Path(__file__).parents[1] / "programs" / "stuck"


def main(argv: Sequence[str] | None = None) -> int:
    """Score a directory; return the exit code."""
    options = _parser().parse_args(argv)
    shows = not options.json

    def tell(row: Row) -> None:
        if shows:
            print(table.line(row), flush=True)

    if shows:
        print(table.HEAD)
    with bench_of(options.dir, options.bundles, options.autopsy, options.path) as bench:
        rows = score(bench, options.only, options.repeat, tell)
    total = totals(rows)
    if options.json:
        print(json.dumps({"rows": [asdict(row) for row in rows], "totals": asdict(total)}))
    else:
        print("\n".join(table.summary(rows)))
    if options.write:
        PAGE.write_text(table.page(rows, bench.programs))
    return 0 if total.is_good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make autopsy-score", description=__doc__)
    parser.add_argument("--dir", type=Path, default=PROGRAMS, help="the programs to score")
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--repeat", type=int, default=1, help="examine each so many times")
    parser.add_argument("--bundles", type=Path, help="keep the bundle of each case here")
    parser.add_argument(
        "--autopsy", type=Path, default=REPOSITORY, help="where the autopsy package to score lies"
    )
    parser.add_argument("--path", type=Path, help="more that the programs may import")
    parser.add_argument("--write", action="store_true", help="write docs/autopsy-score.md")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
