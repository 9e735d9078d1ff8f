"""A real node for the benchmarks, and the store it runs on."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from supervisor.client import Client
from supervisor.clock import SystemClock
from supervisor.model.spec import TaskSpec, parse_spec
from supervisor.settings import load_settings
from supervisor.store import Ledger, open_store

ROOT = Path(__file__).parent.parent
NOOP = TaskSpec(type="noop", queue="bench")


def spec(type_name: str, **params: object) -> TaskSpec:
    """Return what to submit for one task of the benchmarks' app."""
    return parse_spec({"type": type_name, "queue": "bench", "params": params})


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def client(folder: Path) -> Client:
    """Return a client of the folder's store, as a program that submits has it."""
    return Client(load_settings({"store": address(folder)}, {}, None))


def address(folder: Path) -> str:
    """Return the store's address in this folder."""
    return f"sqlite:///{folder / 'bench.db'}"


def fill(folder: Path, tasks: int, type_name: str = "noop") -> float:
    """Submit that many tasks in bulk and return the rate per second."""
    clock = SystemClock()
    store = open_store(address(folder), create=True)
    ledger = Ledger(store, clock)
    began = time.perf_counter()
    for first in range(0, tasks, 1000):
        specs = [TaskSpec(type=type_name, queue="bench")] * min(1000, tasks - first)
        with ledger.transaction() as tx:
            tx.submit(specs, clock.now())
    rate = tasks / (time.perf_counter() - began)
    store.close()
    return rate


@contextmanager
def running(
    folder: Path, *flags: str, workers: int = 2, port: int = 0
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a node on the folder's store, with these flags beside, and stop it at the end."""
    command = [
        *(sys.executable, "-m", "supervisor", "run", "bench.tasks:app"),
        *("--store", address(folder), "--workers", str(workers)),
        *("--metrics-listen", f"127.0.0.1:{port}" if port else "none"),
        *flags,
    ]
    with (folder / "node.log").open("wb") as log:
        node = subprocess.Popen(command, cwd=ROOT, stderr=log, env={**os.environ, "NO_COLOR": "1"})
    try:
        yield node
    finally:
        node.terminate()
        node.wait(30)


@contextmanager
def ready(
    folder: Path, *flags: str, workers: int = 2
) -> Iterator[tuple[subprocess.Popen[bytes], Client, str]]:
    """Run a node on a new store until all workers are ready; with a client, and its metrics URL."""
    fill(folder, 0)
    port = free_port()
    with running(folder, *flags, workers=workers, port=port) as process:
        wait_ready(process, port)
        db = database(folder)
        wait_until(lambda: count(db, "workers") == workers)
        db.close()
        submitter = client(folder)
        yield process, submitter, f"http://127.0.0.1:{port}/metrics"
        submitter.close()


def wait_until(told: Callable[[], bool], timeout_s: float = 60, every_s: float = 0.001) -> None:
    """Wait until it is so. Raises: TimeoutError."""
    deadline = time.monotonic() + timeout_s
    while not told():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not so after {timeout_s:g} s: {told}")
        time.sleep(every_s)


def count(db: sqlite3.Connection, rows: str) -> int:
    """Return how many there are of what stands after FROM."""
    number: int = db.execute(f"SELECT count(*) FROM {rows}").fetchone()[0]
    return number


def workers_of(folder: Path) -> list[int]:
    """Return the pids of the workers that live."""
    db = database(folder)
    rows = db.execute("SELECT pid FROM workers WHERE ended_at IS NULL").fetchall()
    db.close()
    return [pid for (pid,) in rows]


def exact_cpu_s(pid: int) -> float:
    """Return the CPU seconds of all living threads of a process, to the nanosecond."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def wait_ready(node: subprocess.Popen[bytes], port: int) -> None:
    """Wait until the node says that it is ready."""

    def ready() -> bool:
        if node.poll() is not None:
            raise RuntimeError(f"the node left with {node.returncode}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1):
                return True
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    wait_until(ready, 20, 0.005)


def events(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the lines of the node's log that tell this event, oldest first."""
    mark = f'"event": "{name}"'
    with (folder / "node.log").open() as log:
        return [json.loads(line) for line in log if mark in line and line.endswith("}\n")]


def database(folder: Path) -> sqlite3.Connection:
    """Open the store for counting."""
    return sqlite3.connect(f"file:{folder / 'bench.db'}?mode=ro", uri=True, timeout=10)


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and all below it, reaped children included."""
    total = 0.0
    todo = [pid]
    while todo:
        current = todo.pop()
        try:
            text = Path(f"/proc/{current}/stat").read_text()
            fields = text[text.rindex(")") + 2 :].split()
            total += sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")
            for task in Path(f"/proc/{current}/task").iterdir():
                todo += [int(child) for child in (task / "children").read_text().split()]
        except FileNotFoundError:
            continue
    return total
