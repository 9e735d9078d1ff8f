"""The `pools` section: pools of database connections and of threads, how much of each is in use.

Secret: the fields in which SQLAlchemy, psycopg_pool and the standard library keep count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from autopsy import clock
from autopsy.cpython import layout as at
from autopsy.cpython.census import find, with_subclasses
from autopsy.cpython.interpreter import Interpreter
from autopsy.cpython.objects import Objects
from autopsy.cpython.reader import OutOfTime, Unreadable
from autopsy.section import Payload, Skipped

_MAX_POOLS = 50
# Of the time left: the rest is for reading what was found.
_SHARE = 0.8
_WORKER_FILE = "concurrent/futures/thread.py"


def collect(interpreter: Interpreter) -> Payload:
    """Return the section.

    Shapes: kind, size, checked_out, overflow, max_overflow (None without a limit), waiting,
    timeout_s (None without one). Raises Skipped when no library of pools is loaded, or no pool.
    """
    makes = _makes(interpreter)
    pools = list(_executors(interpreter))
    partial = False
    if makes:
        remaining = interpreter.memory.deadline_mono - clock.mono()
        found = find(interpreter, makes, clock.mono() + _SHARE * remaining)
        partial = found.partial
        for address in found.objects[:_MAX_POOLS]:
            try:
                kind = interpreter.objects.type_of(address).address
                pools.append(makes[kind](interpreter, address))
            except (Unreadable, KeyError):
                continue
    if not pools:
        raise Skipped("no pool of connections or threads is in it" if makes else "uses no pools")
    return {"pools": pools, "partial": partial}


_Reader = Callable[[Interpreter, int], Payload]


def _makes(interpreter: Interpreter) -> dict[int, _Reader]:
    """The classes of pools that are loaded, derived ones included, with what reads them."""
    known: tuple[tuple[str, str, _Reader], ...] = (
        ("sqlalchemy.pool.impl", "QueuePool", _sqlalchemy),
        ("psycopg_pool.pool", "ConnectionPool", _psycopg),
        ("psycopg_pool.pool_async", "AsyncConnectionPool", _psycopg),
    )
    found: dict[int, _Reader] = {}
    for module, name, reader in known:
        kind = interpreter.variables(module).get(name, 0)
        try:
            found.update(dict.fromkeys(with_subclasses(interpreter, kind) if kind else (), reader))
        except Unreadable:
            continue
    return found


def _sqlalchemy(interpreter: Interpreter, address: int) -> Payload:
    objects = interpreter.objects
    queue = objects.attribute(address, "_pool")
    size = _number(objects, queue, "maxsize")
    overflow = _number(objects, address, "_overflow")
    most = _number(objects, address, "_max_overflow")
    idle = objects.length(
        objects.attribute(queue, "queue" if _is_plain(objects, queue) else "_queue")
    )
    return {
        "kind": f"sqlalchemy.{objects.type_of(address).short_name}",
        "id": hex(address),
        "size": size,
        # It counts up from minus its size while the first connections are made.
        "checked_out": size - idle + overflow,
        "overflow": max(0, overflow),
        "max_overflow": None if most == -1 else most,
        "waiting": _callers_of(interpreter, "sqlalchemy/util/queue.py", "get", queue),
        "timeout_s": _seconds(objects, address, "_timeout"),
    }


def _is_plain(objects: Objects, queue: int) -> bool:
    return bool(objects.attribute(queue, "queue"))


def _psycopg(interpreter: Interpreter, address: int) -> Payload:
    objects = interpreter.objects
    connections = _number(objects, address, "_nconns")
    return {
        "kind": f"psycopg_pool.{objects.type_of(address).short_name}",
        "id": hex(address),
        "size": _number(objects, address, "_max_size"),
        "checked_out": connections - objects.length(objects.attribute(address, "_pool")),
        "overflow": 0,
        "max_overflow": 0,
        "waiting": objects.length(objects.attribute(address, "_waiting")),
        "timeout_s": _seconds(objects, address, "timeout"),
    }


def _executors(interpreter: Interpreter) -> Iterator[Payload]:
    """Yield the pools of threads whose workers live."""
    workers: dict[int, int] = {}
    busy: dict[int, int] = {}
    for thread in interpreter.threads:
        for depth, frame in enumerate(thread.calls):
            if frame.is_in(_WORKER_FILE, "_worker"):
                queue = frame.local("work_queue")
                workers.setdefault(queue, frame.local("executor_reference"))
                busy[queue] = busy.get(queue, 0) + (depth > 0)
    for queue, reference in workers.items():
        try:
            yield _executor(interpreter, queue, reference, busy[queue])
        except (Unreadable, OutOfTime):
            continue


def _executor(interpreter: Interpreter, queue: int, reference: int, busy: int) -> Payload:
    objects, memory = interpreter.objects, interpreter.memory
    executor = memory.word(reference + at.WEAKREF_OBJECT)
    items, first = memory.words(queue + at.SIMPLE_QUEUE_ITEMS, 2)
    return {
        "kind": "concurrent.futures.ThreadPoolExecutor",
        "id": hex(executor),
        "size": _number(objects, executor, "_max_workers"),
        "checked_out": busy,
        "overflow": 0,
        "max_overflow": 0,
        "waiting": max(0, objects.length(items) - first),
        "timeout_s": None,
    }


def _callers_of(interpreter: Interpreter, file: str, function: str, owner: int) -> int:
    """Return how many threads are in a call of this object."""
    return sum(
        any(one.is_in(file, function) and one.local("self") == owner for one in thread.calls)
        for thread in interpreter.threads
    )


def _number(objects: Objects, address: int, name: str) -> int:
    return objects.integer(objects.attribute(address, name))


def _seconds(objects: Objects, address: int, name: str) -> float | None:
    value = objects.attribute(address, name)
    if objects.is_a(value, "builtins.float"):
        return objects.real(value)
    return float(objects.integer(value)) if objects.is_a(value, "builtins.int") else None
