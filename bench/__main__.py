"""Measure, print the table, keep the list; exit 1 when a budget is missed (never with --quick).

A benchmark is a module of this package with `measure(folder, scale) -> list[Figure]`, named here.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from pathlib import Path

from bench.figure import Figure, keep, table

BENCHES = (
    "start",
    "submit",
    "drain",
    "latency",
    "births",
    "replacement",
    "cancel",
    "idle",
    "scrape",
    "probes",
    "agent",
    "capture",
    "memory",
)


def main() -> int:
    """Run the named benchmarks, or all."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*BENCHES, []], help="which ones (all)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the tasks")
    options = parser.parse_args()
    figures: list[Figure] = []
    for name in options.names or BENCHES:
        print(f"measuring {name} …", file=sys.stderr)
        bench = importlib.import_module(f"bench.{name}")
        with tempfile.TemporaryDirectory(prefix="supervisor-bench-") as folder:
            figures += bench.measure(Path(folder), 0.1 if options.quick else 1.0)
    print(table(figures))
    print(f"kept in {keep(figures).relative_to(Path.cwd())}", file=sys.stderr)
    return 0 if options.quick or all(figure.ok for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
