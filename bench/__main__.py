"""Measure, print the table, keep the list; exit 1 when a budget is missed (never with --quick).

A benchmark is a module of this package with `measure(place, scale) -> list[Figure]`, named here
with the kinds of store it is of interest for. Each runs on a new store, with new servers.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench import page
from bench.figure import Figure, keep, machine, table
from bench.peers import server
from bench.peers.report import markdown
from bench.place import Kind, made

FILE, SERVER, ALL = (Kind.SQLITE,), (Kind.POSTGRESQL, Kind.REDIS), tuple(Kind)
BENCHES = {
    "start": FILE,
    "submit": ALL,
    "drain": ALL,
    "latency": ALL,
    "births": FILE,
    "replacement": FILE,
    "cancel": ALL,
    "idle": ALL,
    "scaling": SERVER,
    "scrape": FILE,
    "probes": FILE,
    "agent": FILE,
    "capture": FILE,
    "memory": FILE,
}


def main() -> int:
    """Run the named benchmarks, or all."""
    options = _options()
    kinds = [Kind(name) for name in options.store or Kind]
    if any(kind is not Kind.SQLITE for kind in kinds) and (gone := server.missing(server.ALL)):
        print(f"missing: {' '.join(gone)}; or measure with --store sqlite", file=sys.stderr)
        return 69
    figures: list[Figure] = []
    for name in options.names or BENCHES:
        for kind in [kind for kind in BENCHES[name] if kind in kinds]:
            print(f"measuring {name}, {kind} …", file=sys.stderr)
            figures += _measured(name, kind, 0.1 if options.quick else 1.0)
    print(table(figures))
    print(machine())
    if options.page:
        page.put("stores", f"Measured {machine()}.\n\n{by_store(figures)}")
    print(f"kept in {keep(figures).relative_to(Path.cwd())}", file=sys.stderr)
    return 0 if options.quick or all(figure.ok for figure in figures) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*BENCHES, []], help="which ones (all)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the tasks")
    parser.add_argument("--store", nargs="+", choices=[*Kind], help="on these only (all)")
    parser.add_argument("--page", action="store_true", help="write those of stores into the docs")
    return parser.parse_args()


def by_store(figures: Sequence[Figure]) -> str:
    """Return the figures of stores as a table, a column for each kind that was measured."""
    ends = {kind: f", {kind}" for kind in Kind}
    found = {
        (figure.name.removesuffix(end), kind): figure
        for figure in figures
        for kind, end in ends.items()
        if figure.name.endswith(end)
    }
    names = list(dict.fromkeys(name for name, _ in found))
    kinds = [kind for kind in Kind if any(kind is its for _, its in found)]
    rows = [["figure", *kinds]]
    for name in names:
        cells = [found.get((name, kind)) for kind in kinds]
        rows.append([name, *(cell.words() if cell else "" for cell in cells)])
    return markdown(rows)


def _measured(name: str, kind: Kind, scale: float) -> list[Figure]:
    """Return the figures of one benchmark; where there are several stores they name theirs."""
    bench = importlib.import_module(f"bench.{name}")
    with made(kind) as place:
        figures: list[Figure] = bench.measure(place, scale)
    if BENCHES[name] is FILE:
        return figures
    return [replace(figure, name=f"{figure.name}, {kind}") for figure in figures]


if __name__ == "__main__":
    sys.exit(main())
