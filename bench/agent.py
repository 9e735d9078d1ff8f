"""What it costs a process to keep its own evidence: samples, log ring, and nothing on its locks."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from autopsy.ring import LogRing, RingHandler, create_log_ring
from autopsy.sampler import PERIOD_S, Sampler
from autopsy.stackring import create_stack_ring
from bench import node
from bench.figure import Figure, at_most
from bench.place import Place

ROUNDS = 15
#: A loop is sampled so many times as often as it is in a worker; its loss is divided by that.
OFTENER = 25
SLEEPERS = 20
TASKS = 20_000


def measure(place: Place, scale: float) -> list[Figure]:
    """By turns with and without, each in a process of its own or in the same worker."""
    rounds = max(3, int(ROUNDS * scale))
    return [
        *_beside_a_plain_process(rounds),
        _sleeping(place, max(4.0, 20 * scale)),
        at_most("log record into the ring, beside NullHandler", _log_us(rounds), "µs", 3),
        *_samples(),
    ]


def _beside_a_plain_process(rounds: int) -> list[Figure]:
    with _process(sampled=False) as plain, _process(sampled=True) as sampled:
        loss, lock = [_ratio(plain, sampled, what, rounds) - 1 for what in ("loop", "lock")]
    return [
        at_most("sampling a busy loop", loss / OFTENER * 100, "% CPU", 2),
        at_most("threading.Lock round trip, with samples", abs(lock) * 100, "% CPU", 5),
    ]


def _ratio(
    plain: Connection[Any, Any], sampled: Connection[Any, Any], what: str, rounds: int
) -> float:
    """Return the least the sampled process took to the least of the plain one, by turns.

    Whoever else uses the cores only ever adds: the least is nearest to the truth.
    """
    took: dict[Connection[Any, Any], list[float]] = {plain: [], sampled: []}
    both = [plain, sampled]
    for _ in range(rounds):
        for line in both:
            line.send(what)
            took[line].append(line.recv())
        both.reverse()
    return min(took[sampled]) / min(took[plain])


@contextmanager
def _process(*, sampled: bool) -> Iterator[Connection[Any, Any]]:
    """Fork a process that does what it is sent the name of, and answers with its CPU seconds."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_serve, args=(theirs, sampled))
    process.start()
    yield ours
    ours.send("")
    process.join()
    ours.close()
    theirs.close()


def _serve(line: Connection[Any, Any], sampled: bool) -> None:
    works: dict[str, Callable[[], float]] = {"loop": _loop_s, "lock": _lock_s}
    often = threading.Event()
    if sampled:
        sampler = Sampler(create_stack_ring(300))
        threading.Thread(target=_pulse, args=(sampler, often), daemon=True).start()
    while what := line.recv():
        if what == "loop":
            often.set()
        line.send(works[what]())
        often.clear()


def _pulse(sampler: Sampler, often: threading.Event) -> None:
    """Do what a worker's pulse does; more often where a loss is to be seen at all."""
    while True:
        if often.is_set():
            sampler._due = 0.0
        sampler.turn(1)
        time.sleep(PERIOD_S / OFTENER if often.is_set() else PERIOD_S / 5)


def _loop_s() -> float:
    """Return the CPU seconds of the whole process for a fixed piece of work, ten calls deep."""
    began = time.process_time()
    for _ in range(20):
        _descend(10)
    return time.process_time() - began


def _descend(left: int) -> int:
    if left:
        return _descend(left - 1)
    total = 0
    for number in range(100_000):
        total = (total * 31 + number) % 1_000_003
    return total


def _lock_s() -> float:
    """Return the CPU seconds of the calling thread for many round trips of a lock."""
    lock = threading.Lock()
    began = time.thread_time()
    for _ in range(1_000_000):
        with lock:
            pass
    return time.thread_time() - began


def _sleeping(place: Place, seconds: float) -> Figure:
    """Return the CPU of workers whose tasks sleep, above that of the same that take no samples."""
    shares = {}
    for window in ("300", "0"):
        shares[window] = _sleeping_share(place.below(f"window{window}"), window, seconds)
    more = (shares["300"] - shares["0"]) * 100
    return at_most("sampling a sleeping task", more, "% of a core", 2)


def _sleeping_share(place: Place, window: str, seconds: float) -> float:
    with node.ready(place, "--stack-window", window, workers=SLEEPERS) as (_, client, _url):
        handles = client.submit([node.spec("rest", seconds=seconds + 3) for _ in range(SLEEPERS)])
        pids = node.workers_of(place)
        time.sleep(2)  # first samples cost the most, and are few
        before = sum(map(node.exact_cpu_s, pids))
        began = time.perf_counter()
        time.sleep(seconds)
        share = (sum(map(node.exact_cpu_s, pids)) - before) / (time.perf_counter() - began)
        for handle in handles:
            handle.wait(60)
    return share / SLEEPERS


def _log_us(rounds: int) -> float:
    fd = create_log_ring(100)
    ring = LogRing(fd)
    loggers = []
    for name, handler in (("null", logging.NullHandler()), ("ring", RingHandler(ring))):
        logger = logging.getLogger(f"bench.agent.{name}")
        logger.propagate = False
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        loggers.append(logger)
    rows = [[_records_us(logger) for logger in loggers] for _ in range(rounds)]
    ring.close()
    os.close(fd)
    null, into_ring = map(min, zip(*rows, strict=True))
    return into_ring - null


def _records_us(logger: logging.Logger, records: int = 20_000) -> float:
    began = time.thread_time()
    for number in range(records):
        logger.info("order %s of %s is paid", number, "somebody")
    return (time.thread_time() - began) / records * 1e6


def _samples() -> list[Figure]:
    few, many, tasks = _in_a_process(_sample_costs)
    return [
        at_most("one sample of 4 threads", few, "µs", 200),
        at_most("one sample of 50 threads", many, "µs", 1000),
        at_most(f"one sample beside {TASKS:,} asyncio tasks", tasks, "µs", 500),
    ]


def _in_a_process(work: Callable[[], list[float]]) -> list[float]:
    """Run it in a fork, so that its threads are all there are."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=lambda: theirs.send(work()))
    process.start()
    found: list[float] = ours.recv()
    process.join()
    ours.close()
    theirs.close()
    return found


def _sample_costs() -> list[float]:
    sampler = Sampler(create_stack_ring(300))
    return [
        _with_threads(4, sampler),
        _with_threads(50, sampler),
        asyncio.run(_with_tasks(sampler)),
    ]


def _with_threads(threads: int, sampler: Sampler) -> float:
    stop = threading.Event()
    waiting = [threading.Thread(target=_wait, args=(10, stop)) for _ in range(threads - 1)]
    for thread in waiting:
        thread.start()
    cost = _sample_us(sampler)
    stop.set()
    for thread in waiting:
        thread.join()
    return cost


def _wait(left: int, stop: threading.Event) -> None:
    if left:
        _wait(left - 1, stop)
    else:
        stop.wait()


async def _with_tasks(sampler: Sampler) -> float:
    held = asyncio.Event()
    tasks = [asyncio.create_task(_held(held)) for _ in range(TASKS)]
    await asyncio.sleep(0)
    cost = await asyncio.to_thread(_sample_us, sampler)
    held.set()
    await asyncio.gather(*tasks)
    return cost


async def _held(held: asyncio.Event) -> None:
    await held.wait()


def _sample_us(sampler: Sampler, samples: int = 200) -> float:
    costs = []
    for _ in range(samples):
        sampler._due = 0.0
        began = time.thread_time()
        sampler.turn(1)
        costs.append((time.thread_time() - began) * 1e6)
    return statistics.median(costs)
