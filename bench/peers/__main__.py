"""Measure other task queues and ours in one run; keep the rows, print the tables.

Each queue gets a private server and an environment of its own, below build/, made from pinned
versions. About ten minutes on two cores, all together.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.node import ROOT
from bench.peers import ending, environment, report, server, speed
from bench.peers.roster import PEERS, Peer
from bench.peers.scene import staged

OUT = ROOT / "bench" / "out" / "peers.json"
HOME = ROOT / "build" / "peers"


def main(arguments: list[str] | None = None) -> int:
    """Run the stages that were asked for."""
    options = _options(arguments)
    peers = [peer for peer in PEERS if peer.name in options.peers]
    if "speed" in options.stages and not _servers_are_there(peers, options):
        return 69
    place = Path(tempfile.mkdtemp(prefix="supervisor-peers-"))
    place.chmod(0o711)  # PostgreSQL runs as somebody else and must get to its folder
    kept: dict[str, Any] = {"machine": f"{os.cpu_count()} CPUs, {platform.platform()}"}
    try:
        if "speed" in options.stages:
            kept["speed"] = _speeds(peers, place, options)
            print(report.speeds(kept["speed"]))
        if "ending" in options.stages:
            print("how ours end …", file=sys.stderr)
            kept["ending"] = ending.measure(place / "ending")
            print(report.endings(kept["ending"]))
    finally:
        shutil.rmtree(place, ignore_errors=True)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(kept, indent=1) + "\n")
    print(f"kept in {OUT.relative_to(ROOT)}", file=sys.stderr)
    return 0


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
    stages = ["speed", "ending"]
    parser.add_argument("--stages", nargs="+", choices=stages, default=stages)
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
            "durable": peer.durable,
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
