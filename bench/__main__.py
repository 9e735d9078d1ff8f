"""Measure, print the table, keep the list; exit 1 when a budget is missed (never with --quick).

Usage: python -m bench [--quick] [NAME …] with NAME of: start, submit, drain, latency.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench import node, reference
from bench.figure import Figure, keep, table
from supervisor.model.spec import TaskSpec, parse_spec
from supervisor.settings import load_settings

REPEATS = 3
NOOP = TaskSpec(type="noop", queue="bench")
PEER = "plain SQLite loop"


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def start(folder: Path, _scale: float) -> list[Figure]:
    """How long a person waits: for help, and for the first worker of a node."""
    helps, readies = [], []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run(
            [Path(sys.executable).parent / "supervisor", "--help"], check=True, capture_output=True
        )
        helps.append((time.perf_counter() - began) * 1000)
    for _ in range(REPEATS):
        node.fill(folder, 0)
        port = _free_port()
        with node.running(folder, workers=1, port=port) as process:
            node.wait_ready(process, port)
            log = (folder / "node.log").read_text()
            readies.append(_ms_between(log, "node.started", "worker.spawned"))
    return [
        Figure(
            name="supervisor --help",
            value=statistics.median(helps),
            unit="ms",
            floor=200,
            at_most=True,
        ),
        Figure(
            name="zygote and first worker",
            value=statistics.median(readies),
            unit="ms",
            floor=500,
            at_most=True,
        ),
    ]


def _ms_between(log: str, first: str, then: str) -> float:
    import json
    from datetime import datetime

    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    moments = {line["event"]: datetime.fromisoformat(line["timestamp"]) for line in lines}
    return (moments[then] - moments[first]).total_seconds() * 1000


def submit(folder: Path, scale: float) -> list[Figure]:
    """Submitting one by one through the public client, and in bulk."""
    from supervisor.client import Client

    number = int(3000 * scale)
    settings = load_settings({"store": node.address(folder)}, {}, None)
    node.fill(folder, 1)
    client = Client(settings)
    rates, peers = [], []
    for turn in range(REPEATS):
        began = time.perf_counter()
        for _ in range(number):
            client.submit([NOOP])
        rates.append(number / (time.perf_counter() - began))
        peers.append(reference.enqueue_rate(folder / f"peer{turn}.db", number))
    client.close()
    bulk = statistics.median(node.fill(folder, int(20_000 * scale)) for _ in range(REPEATS))
    return [
        Figure(
            name="submit one by one",
            value=statistics.median(rates),
            unit="/s",
            floor=3500,
            peer=PEER,
            peer_value=statistics.median(peers),
        ),
        Figure(name="submit in bulk", value=bulk, unit="/s", floor=50_000),
    ]


def drain(folder: Path, scale: float) -> list[Figure]:
    """No-op tasks on two workers, from 10 % to 90 % done; a submitter's wait meanwhile."""
    number = int(20_000 * scale)
    rates, cpus, peers, waits = [], [], [], []
    for turn in range(REPEATS):
        place = folder / f"drain{turn}"
        place.mkdir()
        node.fill(place, number)
        rate, cpu = _drain_once(place, number, waits if turn == REPEATS - 1 else None)
        rates.append(rate)
        cpus.append(cpu)
        peers.append(reference.drain_rate(place / "peer.db", max(2000, number // 5)))
    waits.sort()
    return [
        Figure(
            name="drain, 2 workers",
            value=statistics.median(rates),
            unit="/s",
            floor=5000,
            peer=PEER,
            peer_value=statistics.median(peers),
        ),
        Figure(
            name="CPU of everything per 1,000 tasks",
            value=statistics.median(cpus),
            unit="s",
            floor=0.3,
            at_most=True,
        ),
        Figure(
            name="submit p99 while draining",
            value=waits[int(len(waits) * 0.99)] if waits else float("inf"),
            unit="ms",
            floor=15,
            at_most=True,
        ),
    ]


def _drain_once(place: Path, number: int, waits: list[float] | None) -> tuple[float, float]:
    db = node.done(place)
    with node.running(place) as process:
        stop = threading.Event()
        submitter = threading.Thread(target=_submit_meanwhile, args=(place, stop, waits))
        marks: list[tuple[float, int, float]] = []
        for share in (0.1, 0.9):
            while (ended := _ended(db)) < number * share:
                time.sleep(0.01)
            marks.append((time.perf_counter(), ended, node.cpu_s(process.pid)))
            if share == 0.1 and waits is not None:
                submitter.start()
        stop.set()
        if waits is not None:
            submitter.join()
    db.close()
    (t0, n0, c0), (t1, n1, c1) = marks
    return (n1 - n0) / (t1 - t0), (c1 - c0) / (n1 - n0) * 1000


def _ended(db: object) -> int:
    row = db.execute("SELECT count(*) FROM tasks WHERE state = 'SUCCESS'")  # type: ignore[attr-defined]
    count: int = row.fetchone()[0]
    return count


def _submit_meanwhile(place: Path, stop: threading.Event, waits: list[float] | None) -> None:
    from supervisor.client import Client

    client = Client(load_settings({"store": node.address(place)}, {}, None))
    while not stop.is_set() and waits is not None:
        began = time.perf_counter()
        client.submit([NOOP])
        waits.append((time.perf_counter() - began) * 1000)
        time.sleep(0.002)
    client.close()


def latency(folder: Path, scale: float) -> list[Figure]:
    """From the submit call to the first line of the body, one task each 20 ms."""
    from supervisor.client import Client

    stamps = folder / "stamps"
    port = _free_port()
    node.fill(folder, 0)
    raw = {"type": "stamp", "queue": "bench", "params": {"fd_path": str(stamps)}}
    stamp = parse_spec(raw)
    sent = []
    with node.running(folder, port=port) as process:
        node.wait_ready(process, port)
        client = Client(load_settings({"store": node.address(folder)}, {}, None))
        for _ in range(int(300 * scale)):
            sent.append(time.monotonic_ns())
            client.submit([stamp])
            time.sleep(0.02)
        client.close()
        time.sleep(0.5)
    seen = sorted(int(line) for line in stamps.read_text().split())
    waits = sorted((b - a) / 1e6 for a, b in zip(sent, seen, strict=True))
    return [
        Figure(
            name="submit to first line, p50",
            value=statistics.median(waits),
            unit="ms",
            floor=3,
            at_most=True,
        ),
        Figure(
            name="submit to first line, p99",
            value=waits[int(len(waits) * 0.99)],
            unit="ms",
            floor=15,
            at_most=True,
        ),
    ]


BENCHES: dict[str, Callable[[Path, float], list[Figure]]] = {
    "start": start,
    "submit": submit,
    "drain": drain,
    "latency": latency,
}


def main() -> int:
    """Run the named benchmarks, or all."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*BENCHES, []], help="which ones (all)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the tasks")
    options = parser.parse_args()
    figures: list[Figure] = []
    for name in options.names or BENCHES:
        print(f"measuring {name} …", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix="supervisor-bench-") as folder:
            figures += BENCHES[name](Path(folder), 0.1 if options.quick else 1.0)
    print(table(figures))
    print(f"kept in {keep(figures).relative_to(Path.cwd())}", file=sys.stderr)
    return 0 if options.quick or all(figure.ok for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
