"""Measure other task queues and ours in one run; keep the rows, print the tables.

Each queue gets private servers and an environment of its own, below build/, made from pinned
versions. About twelve minutes on two cores, all together. The stage `page` writes what was measured
last into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench import page
from bench.figure import machine
from bench.node import ROOT
from bench.peers import ending, environment, report, server, speed
from bench.peers.roster import PEERS, Peer
from bench.peers.scene import staged

OUT = ROOT / "bench" / "out" / "peers.json"
HOME = ROOT / "build" / "peers"
TABLES = (report.speeds, report.ratios, report.guarantees)


def main(arguments: list[str] | None = None) -> int:
    """Run the stages that were asked for."""
    options = _options(arguments)
    peers = [peer for peer in PEERS if peer.name in options.peers]
    if "speed" in options.stages and not _servers_are_there(peers, options):
        return 69
    place = Path(tempfile.mkdtemp(prefix="supervisor-peers-"))
    place.chmod(0o711)  # PostgreSQL runs as somebody else and must get to its folder
    kept: dict[str, Any] = json.loads(OUT.read_text()) if OUT.exists() else {}
    try:
        _measure(peers, place, options, kept)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(kept, indent=1) + "\n")
    print(f"kept in {OUT.relative_to(ROOT)}", file=sys.stderr)
    if "page" in options.stages:
        tables = [table(kept["speed"]) for table in TABLES]
        page.put("peers", "\n\n".join([f"Measured {kept['when']}.", *tables]))
    return 0


def _measure(
    peers: list[Peer], place: Path, options: argparse.Namespace, kept: dict[str, Any]
) -> None:
    if "speed" in options.stages:
        kept["when"] = machine()
        kept["speed"] = _speeds(peers, place, options)
        print("\n\n".join(table(kept["speed"]) for table in TABLES))
    if "ending" in options.stages:
        print("how ours end …", file=sys.stderr)
        kept["ending"] = ending.measure(place / "ending")
        print(report.endings(kept["ending"]))


def _servers_are_there(peers: list[Peer], options: argparse.Namespace) -> bool:
    packages = server.missing({peer.server for peer in peers})
    if packages and options.install:
        server.install(packages)
    elif packages:
        print(f"missing: {' '.join(packages)}; --install does it, as root", file=sys.stderr)
    return not packages or options.install


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    names = [peer.name for peer in PEERS]
    stages = ["speed", "ending", "page"]
    parser.add_argument("--stages", nargs="+", choices=stages, default=stages[:2])
    parser.add_argument("--peers", nargs="+", choices=names, default=names)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each queue, interleaved")
    parser.add_argument("--install", action="store_true", help="install missing servers (apt)")
    parser.add_argument("--tasks", type=int, default=10_000, help="no-op tasks to drain")
    return parser.parse_args(arguments)


def _speeds(peers: list[Peer], place: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    folders = {peer.name: environment.programs(peer, HOME) for peer in peers}
    rows: list[dict[str, Any]] = [
        {
            "name": peer.name,
            "label": peer.label,
            "ours": peer.environment is None,
            "store": peer.store,
            "durable": peer.durable,
            "survives": peer.survives,
            "record": peer.record,
            "at_once": peer.at_once,
            "versions": environment.versions(peer, folders[peer.name]),
            "rounds": [],
        }
        for peer in peers
    ]
    for turn in range(options.rounds):
        for row, peer in zip(rows, peers, strict=True):
            print(f"round {turn + 1}: {peer.label} …", file=sys.stderr)
            folder = place / f"{peer.name}-{turn}"
            with staged(peer, folders[peer.name], folder) as scene:
                row["rounds"].append(speed.measure(scene, options.tasks, 200).as_row())
            shutil.rmtree(folder)
    return rows


if __name__ == "__main__":
    sys.exit(main())
