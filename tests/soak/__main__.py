"""The soak: a long storm, then very many tasks and forced kills, then thousands of workers that
live for one task, then a storm over three nodes.

`make soak ARGS="--tasks 10000 --noop 200000 --kills 500 --lives 5000 --fleet 100000"`. Nothing may
be left of it. Not collected by pytest. Exits with 1 on a violation, and then keeps the directories
of the nodes. The three nodes share a PostgreSQL and a Redis that are started for it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import stores
from harness import NodeUnderTest, eventually
from soak.endurance import Endurance
from soak.lives import Lives
from storm import APP, FLEET, FLEET_SETTINGS, SETTINGS, Storm, chosen_seed, settle

NODE_KILLS = 3
FLEET_NODES, FLEET_TASKS_PER_KILL = 3, 500
PATIENCE_S = 900.0


@dataclass
class Summary:
    """What a soak has found."""

    seed: int
    violations: list[str] = field(default_factory=list)
    storm: dict[str, Any] = field(default_factory=dict)
    endurance: dict[str, Any] = field(default_factory=dict)
    lives: dict[str, Any] = field(default_factory=dict)
    fleet: dict[str, Any] = field(default_factory=dict)
    leftover_processes: int = 0
    kept: str = ""

    @property
    def text(self) -> str:
        """The summary in lines for a person."""
        lines = [
            *(f"{name}: {value}" for name, value in self.storm.items()),
            *(f"{name}: {value}" for name, value in self.endurance.items()),
            *(f"lives, {name}: {value}" for name, value in self.lives.items()),
            *(f"fleet, {name}: {value}" for name, value in self.fleet.items()),
            f"leftover processes: {self.leftover_processes}",
            *(f"VIOLATION {one}" for one in self.violations),
            f"{len(self.violations)} violations, seed {self.seed}",
        ]
        return "\n".join([*lines, f"kept for a look: {self.kept}"] if self.kept else lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; return the exit code."""
    options = _parser().parse_args(argv)
    tell = _teller()
    summary = Summary(chosen_seed(options.seed))
    print("seed", summary.seed, file=sys.stderr)
    runtime = tempfile.mkdtemp(prefix="sv-")  # where client and node find the doorbell
    os.environ["XDG_RUNTIME_DIR"] = runtime
    try:
        if options.tasks:
            with _nodes(summary, "storm", [SETTINGS]) as (node,):
                _storm(node, options.tasks, summary, tell)
        if options.noop or options.kills:
            with _nodes(summary, "endurance", [Endurance.SETTINGS]) as (node,):
                _endure(node, Endurance(options.noop, options.kills, tell), summary)
        if options.lives:
            with _nodes(summary, "lives", [Lives.SETTINGS]) as (node,):
                _live(node, Lives(options.lives, tell), summary)
        if options.fleet:
            _fleet(options.fleet, summary, tell)
        summary.violations += [f"left behind: socket {one}" for one in os.listdir(runtime)]
    finally:
        shutil.rmtree(runtime)
    print(json.dumps(asdict(summary), indent=2) if options.json else summary.text)
    return 1 if summary.violations else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000, help="random tasks of the storm")
    parser.add_argument("--noop", type=int, default=200_000, help="no-op tasks afterwards")
    parser.add_argument("--kills", type=int, default=500, help="forced kills among them")
    parser.add_argument("--lives", type=int, default=5000, help="workers that live for one task")
    parser.add_argument("--fleet", type=int, default=100_000, help="random tasks on three nodes")
    parser.add_argument("--seed", type=int, help="repeat a storm")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    return parser


def _teller() -> Callable[[str, int, int], None]:
    """Return what shows progress: one changing line on a terminal, nothing elsewhere."""
    shows, began = sys.stderr.isatty(), time.monotonic()

    def tell(what: str, done: int, of: int) -> None:
        if shows:
            line = f"\r{what} {done}/{of} after {time.monotonic() - began:.0f} s "
            print(line, end="\n" if done >= of else "", file=sys.stderr, flush=True)

    return tell


@contextmanager
def _nodes(
    summary: Summary,
    name: str,
    settings: Sequence[Mapping[str, object]],
    place: stores.Place | None = None,
) -> Iterator[list[NodeUnderTest]]:
    """Start a node with each of these settings for one part, and see that they leave nothing."""
    root = Path(tempfile.mkdtemp(prefix=f"soak-{name}-"))
    nodes = [
        NodeUnderTest(root / f"{number}", APP, place=place, **dict(one))
        for number, one in enumerate(settings)
    ]
    before = len(summary.violations)
    try:
        for node in nodes:
            node.start()
        yield nodes
        codes = [node.stop(30) for node in nodes]
        if any(codes):
            summary.violations.append(f"{name}: the nodes ended with {codes}")
    except AssertionError as exc:
        summary.violations.append(f"{name}: {exc}")
    finally:
        for node in nodes:
            node.close()
            _require_nothing_left(node, name, summary)
    if len(summary.violations) > before:
        summary.kept = f"{summary.kept} {root}".strip()
    else:
        shutil.rmtree(root)


def _require_nothing_left(node: NodeUnderTest, name: str, summary: Summary) -> None:
    try:
        eventually(lambda: not node.processes(), 3, "no process is left")
    except AssertionError:
        strays = node.end_strays()
        summary.leftover_processes += len(strays)
        summary.violations += [f"{name}: left behind: process {one}" for one in strays]
    summary.violations += [f"{name}: left behind: file {one}" for one in node.leftover_files()]


def _storm(
    node: NodeUnderTest, tasks: int, summary: Summary, tell: Callable[[str, int, int], None]
) -> None:
    began = time.monotonic()
    storm = Storm([node], summary.seed, node.root / "runs")
    storm.blow(
        tasks,
        node_kills=NODE_KILLS,
        least_kills=min(15, tasks // 20),
        patience_s=PATIENCE_S,
        tell=lambda done: tell("storm", done, tasks),
    )
    took_s = round(time.monotonic() - began, 1)
    settle(node, 4)
    summary.violations += storm.violations()
    summary.storm = {**storm.figures(), "took_s": took_s}


def _fleet(tasks: int, summary: Summary, tell: Callable[[str, int, int], None]) -> None:
    """A storm over nodes that share a store, of which one is killed now and then."""
    settings = [{**FLEET_SETTINGS, "node_name": f"node{n}"} for n in range(FLEET_NODES)]
    places = stores.Places()
    try:
        place = places.make(stores.SERVER_AND_REDIS, Path())
        with _nodes(summary, "fleet", settings, place) as nodes:
            began = time.monotonic()
            storm = Storm(nodes, summary.seed, nodes[0].root / "runs", **FLEET)
            storm.blow(
                tasks,
                node_kills=tasks // FLEET_TASKS_PER_KILL,
                least_kills=min(15, tasks // 20),
                patience_s=PATIENCE_S,
                tell=lambda done: tell("fleet", done, tasks),
            )
            took_s = round(time.monotonic() - began, 1)
            for node in nodes:
                settle(node, 2)
            summary.violations += storm.violations()
            summary.fleet = {**storm.figures(), "took_s": took_s}
    finally:
        places.close()


def _endure(node: NodeUnderTest, run: Endurance, summary: Summary) -> None:
    run.on(node)
    summary.violations += run.violations()
    summary.endurance = run.figures()


def _live(node: NodeUnderTest, run: Lives, summary: Summary) -> None:
    run.on(node)
    summary.violations += run.violations()
    summary.lives = run.figures()


if __name__ == "__main__":
    sys.exit(main())
