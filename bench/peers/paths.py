"""What a producer and the workers of a peer are told, by environment variables."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = "PEERS_FOLDER"
ADDRESS = "PEERS_ADDRESS"
BELL = "PEERS_BELL"


def folder() -> Path:
    """Return where this run keeps its files."""
    return Path(os.environ[FOLDER])


def address() -> str:
    """Return the address of the private server, or empty for a queue in a file."""
    return os.environ.get(ADDRESS, "")


def bell() -> str:
    """Return the address of the doorbell, for a queue that has one beside its store."""
    return os.environ.get(BELL, "none")
