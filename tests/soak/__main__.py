"""The soak: a long storm, then very many tasks and forced kills, and nothing may be left of it.

`make soak ARGS="--tasks 10000 --noop 200000 --kills 500"`. Not collected by pytest. Exits with 1 on
a violation, and then keeps the directory of the node.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness import NodeUnderTest, eventually
from soak.endurance import Endurance
from storm import APP, SETTINGS, Storm, chosen_seed, settle

NODE_KILLS = 3
PATIENCE_S = 900.0


@dataclass
class Summary:
    """What a soak has found."""

    seed: int
    violations: list[str] = field(default_factory=list)
    storm: dict[str, Any] = field(default_factory=dict)
    endurance: dict[str, Any] = field(default_factory=dict)
    leftover_processes: int = 0
    kept: str = ""

    @property
    def text(self) -> str:
        """The summary in lines for a person."""
        lines = [
            *(f"{name}: {value}" for name, value in self.storm.items()),
            *(f"{name}: {value}" for name, value in self.endurance.items()),
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
            _on_a_node(
                summary, "storm", lambda n: _storm(n, options.tasks, summary, tell), SETTINGS
            )
        if options.noop or options.kills:
            run = Endurance(options.noop, options.kills, tell)
            _on_a_node(summary, "endurance", lambda n: _endure(n, run, summary), Endurance.SETTINGS)
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


def _on_a_node(
    summary: Summary,
    name: str,
    part: Callable[[NodeUnderTest], None],
    settings: Any,
) -> None:
    """Run one part on a node of its own and see that this node leaves nothing."""
    root = Path(tempfile.mkdtemp(prefix=f"soak-{name}-"))
    node = NodeUnderTest(root, APP, **settings)
    before = len(summary.violations)
    try:
        node.start()
        part(node)
        code = node.stop(30)
        if code != 0:
            summary.violations.append(f"{name}: the node ended with {code}")
    except AssertionError as exc:
        summary.violations.append(f"{name}: {exc}")
    finally:
        node.close()
        _require_nothing_left(node, name, summary)
    if len(summary.violations) > before:
        summary.kept = f"{summary.kept} {root}".strip()
    else:
        node.forget_files()


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


def _endure(node: NodeUnderTest, run: Endurance, summary: Summary) -> None:
    run.on(node)
    summary.violations += run.violations()
    summary.endurance = run.figures()


if __name__ == "__main__":
    sys.exit(main())
