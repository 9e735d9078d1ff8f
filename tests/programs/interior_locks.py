"""Threads that hold locks in every way there is, and threads that wait for each of them."""

import contextlib
import multiprocessing
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

FOREVER = 1000
ready = threading.Semaphore(0)

bare_lock, managed, stacked, called_back = (threading.Lock() for _ in range(4))
outer, inner, given_back, kept = (threading.Lock() for _ in range(4))
reentrant = threading.RLock()
gate = threading.Semaphore(1)
event, condition = threading.Event(), threading.Condition()
empty: "queue.Queue[int]" = queue.Queue()
full: "queue.Queue[int]" = queue.Queue(1)
simple: "queue.SimpleQueue[int]" = queue.SimpleQueue()
shared = multiprocessing.Lock()


class Box:
    def __init__(self) -> None:
        self._guard = threading.Lock()
        self.locks = [threading.Lock() for _ in range(3)]

    def __enter__(self) -> Self:
        self._guard.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self._guard.release()


box = Box()


def stay() -> None:
    ready.release()
    time.sleep(FOREVER)


def holds_bare() -> None:
    bare_lock.acquire()
    try:
        stay()
    finally:
        bare_lock.release()


@contextlib.contextmanager
def locked(lock: threading.Lock) -> Iterator[None]:
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


def holds_managed() -> None:
    with locked(managed):
        stay()


def holds_stacked() -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(stacked)
        called_back.acquire()
        stack.callback(called_back.release)
        stay()


def holds_box() -> None:
    with box:
        stay()


def holds_nested() -> None:
    with outer:
        for _ in range(3):
            with inner, box.locks[1]:
                try:
                    stay()
                except ValueError:
                    pass


def holds_kept() -> None:
    given_back.acquire()
    given_back.release()
    kept.acquire()
    stay()


def holds_reentrant() -> None:
    with reentrant, reentrant:
        stay()


def holds_gate() -> None:
    with gate:
        stay()


def take(lock: Any) -> None:
    with lock:
        time.sleep(FOREVER)


def await_condition() -> None:
    with condition:
        condition.wait()


def start(name: str, function: Callable[..., Any], *arguments: Any) -> threading.Thread:
    thread = threading.Thread(target=function, args=arguments, name=name, daemon=True)
    thread.start()
    return thread


HOLDERS = (
    holds_bare,
    holds_managed,
    holds_stacked,
    holds_box,
    holds_nested,
    holds_kept,
    holds_reentrant,
    holds_gate,
)

full.put(1)
shared.acquire()
for holder in HOLDERS:
    start(holder.__name__, holder)
for _ in HOLDERS:
    ready.acquire()
for name, lock in {
    "bare_lock": bare_lock, "managed": managed, "stacked": stacked, "called_back": called_back,
    "box": box, "outer": outer, "inner": inner, "element": box.locks[1], "kept": kept,
    "reentrant": reentrant, "gate": gate, "shared": shared,
}.items():  # fmt: skip
    start(f"takes-{name}", take, lock)
start("acquires-kept", kept.acquire)
start("timed", lambda: outer.acquire(timeout=FOREVER))
start("item", lambda: empty.get())
start("space", lambda: full.put(2))
start("simple", simple.get)
start("event", lambda: event.wait())
start("condition", await_condition)
waiting = start("joined", event.wait)
start("joins", lambda: waiting.join())
pool = ThreadPoolExecutor(1, "pool")
pool.submit(lambda: pool.submit(print).result())
idle = ThreadPoolExecutor(1, "idle")
idle.submit(print, end="").result()
print("ready", flush=True)
time.sleep(FOREVER)
