"""The environments of the peers: made from their pinned requirements, remade when those change."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

from bench.peers import server
from bench.peers.roster import Peer


def programs(peer: Peer, home: Path) -> Path:
    """Return the folder of the peer's python and commands; makes the environment if need be."""
    if peer.requirements is None:
        return Path(sys.executable).parent
    place = home / str(peer.environment)
    pins, wanted = place / "pins.txt", peer.requirements.read_text()
    if not pins.exists() or pins.read_text() != wanted:
        print(f"making the environment of {peer.environment} …", file=sys.stderr)
        venv.create(place, clear=True, with_pip=True)
        install = [f"{place}/bin/pip", "install", "--quiet", "--requirement"]
        subprocess.run([*install, peer.requirements], check=True, stderr=subprocess.DEVNULL)
        pins.write_text(wanted)
    return place / "bin"


def versions(peer: Peer, bin_folder: Path) -> dict[str, str]:
    """Return what is really installed: packages that the peer pins, and its servers."""
    if peer.requirements is None:
        wanted = peer.server or ""
        names = ["task-supervisor", *["psycopg"] * ("postgres" in wanted)]
        names += ["redis"] * ("redis" in wanted)
    else:
        pins = peer.requirements.read_text().split()
        names = [pin.partition("==")[0].partition("[")[0] for pin in pins]
    program = (
        "import importlib.metadata as m, json, sys;"
        "print(json.dumps({n: m.version(n) for n in sys.argv[1:]}))"
    )
    command = [f"{bin_folder}/python", "-c", program, *names]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found | server.versions(peer.server)
