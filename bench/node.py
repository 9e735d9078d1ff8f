"""A real node for the benchmarks, on the store of a place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.peers.server import free_port as free_port
from bench.place import Database, Place
from supervisor.client import Client
from supervisor.model.spec import TaskSpec, parse_spec
from supervisor.settings import load_settings
from supervisor.store import open_store

ROOT = Path(__file__).parent.parent
NOOP = TaskSpec(type="noop", queue="bench")


def spec(type_name: str, **params: object) -> TaskSpec:
    """Return what to submit for one task of the benchmarks' app."""
    return parse_spec({"type": type_name, "queue": "bench", "params": params})


def client(place: Place) -> Client:
    """Return a client of the place's store, as a program that submits has it."""
    return Client(load_settings({"store": place.store, "queue": place.queue}, {}, None))


def fill(place: Place, tasks: int, type_name: str = "noop", **params: object) -> float:
    """Submit that many tasks in bulk, make the store if need be; return the rate per second."""
    open_store(place.store, create=True).close()
    one, submitter = spec(type_name, **params), client(place)
    began = time.perf_counter()
    for first in range(0, tasks, 1000):
        submitter.submit([one] * min(1000, tasks - first))
    rate = tasks / (time.perf_counter() - began)
    submitter.close()
    return rate


@contextmanager
def running(
    place: Place, *flags: str, workers: int = 2, port: int = 0, name: str = "node"
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a node on the place's store, with these flags beside, and stop it at the end."""
    command = [
        *(sys.executable, "-m", "supervisor", "run", "bench.tasks:app"),
        *("--store", place.store, "--queue", place.queue, "--workers", str(workers)),
        *("--metrics-listen", f"127.0.0.1:{port}" if port else "none"),
        *flags,
    ]
    with (place.folder / f"{name}.log").open("wb") as log:
        node = subprocess.Popen(command, cwd=ROOT, stderr=log, env={**os.environ, "NO_COLOR": "1"})
    try:
        yield node
    finally:
        node.terminate()
        node.wait(30)


@contextmanager
def ready(
    place: Place, *flags: str, workers: int = 2
) -> Iterator[tuple[subprocess.Popen[bytes], Client, str]]:
    """Run a node on a new store until all workers are ready; with a client, and its metrics URL."""
    fill(place, 0)
    port = free_port()
    with running(place, *flags, workers=workers, port=port) as process:
        wait_ready(process, port)
        with place.database() as db:
            wait_until(lambda: db.count("workers") == workers)
        submitter = client(place)
        yield process, submitter, f"http://127.0.0.1:{port}/metrics"
        submitter.close()


def wait_until(told: Callable[[], bool], timeout_s: float = 60, every_s: float = 0.001) -> None:
    """Wait until it is so. Raises: TimeoutError."""
    deadline = time.monotonic() + timeout_s
    while not told():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not so after {timeout_s:g} s: {told}")
        time.sleep(every_s)


def wait_drained(db: Database, filled: int, tasks: float) -> None:
    """Wait until about so many tasks have ended, by the audit trail that was `filled` long."""
    node_rows = 2 * tasks  # of each: claimed, returned
    wait_until(lambda: db.trail() - filled >= node_rows, 240, 0.01)


def workers_of(place: Place) -> list[int]:
    """Return the pids of the workers that live."""
    with place.database() as db:
        return [pid for (pid,) in db.rows("SELECT pid FROM workers WHERE ended_at IS NULL")]


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


def events(place: Place, name: str) -> list[dict[str, Any]]:
    """Return the lines of the node's log that tell this event, oldest first."""
    mark = f'"event": "{name}"'
    with (place.folder / "node.log").open() as log:
        return [json.loads(line) for line in log if mark in line and line.endswith("}\n")]


def servers_cpu_s(place: Place) -> float:
    """Return the CPU seconds of the servers of a place."""
    return sum(cpu_s(pid) for pid in place.pids)


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
