"""Our own adapter of the benchmarks beside other queues, through the producer that drives it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import REPOSITORY

from bench.peers import paths


def asked(
    folder: Path, *requests: dict[str, Any], store: str = "", bell: str = "none"
) -> list[Any]:
    """Run a producer with these requests and return its answers, the greeting left out."""
    environ = {
        **{k: v for k, v in os.environ.items() if not k.startswith("SUPERVISOR_")},
        "PYTHONPATH": str(REPOSITORY),
        paths.FOLDER: str(folder),
        paths.ADDRESS: store or f"sqlite:///{folder / 'tasks.db'}",
        paths.BELL: bell,
    }
    done = subprocess.run(
        [sys.executable, "-m", "bench.peers.producer", "our_queue"],
        cwd=REPOSITORY, env=environ, check=True, timeout=60, capture_output=True, text=True,
        input="".join(json.dumps(request) + "\n" for request in requests),
    )  # fmt: skip
    greeting, *answers = map(json.loads, done.stdout.splitlines())
    assert greeting == "ready"
    return answers


@pytest.fixture(params=["sqlite", "postgresql+redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Name a new store and its bell."""
    nursery = request.getfixturevalue("nursery")
    made = nursery.place(request.param, tmp_path)
    yield {"store": made.url, "bell": made.queue or "none"}
    made.remove()


def test_what_is_submitted_is_on_record_and_can_be_canceled(
    tmp_path: Path, place: dict[str, str]
) -> None:
    submit = {"do": "submit", "body": "deaf", "what": "one", "timeout": 2.0, "max_retries": 0}
    (task,) = asked(tmp_path, submit, **place)
    waiting, _, canceled = asked(
        tmp_path,
        {"do": "record", "task": task},
        {"do": "cancel", "task": task},
        {"do": "record", "task": task},
        **place,
    )
    untouched = {"quarantined": False, "error": None, "attempts": []}
    assert waiting == {"state": "PENDING", "reason": "submitted", "by": [], **untouched}
    assert canceled == {"state": "CANCELED", "reason": "canceled", "by": ["bench"], **untouched}


def test_filling_tells_what_it_took(tmp_path: Path) -> None:
    filled, called = asked(
        tmp_path,
        {"do": "fill", "tasks": 30},
        {"do": "pace", "name": "beat", "tasks": 3, "every_s": 0.001},
    )
    assert filled["seconds"] > 0
    assert 0 < filled["cpu_s"] <= filled["seconds"] * (os.cpu_count() or 1)
    assert sorted(called) == called
    assert len(called) == 3
