"""The `thread_locks` section: locks with their holders, waits with their purpose, and circles.

Secret: how what was found is named and shown.
"""

from __future__ import annotations

from autopsy.cpython.interpreter import Interpreter
from autopsy.cpython.lock import MODULE_LOCK, SEMLOCK, Lock
from autopsy.cpython.lockgraph import Graph, Wait
from autopsy.cpython.naming import Names
from autopsy.cpython.neighbour import Neighbours
from autopsy.cpython.reader import OutOfTime, Unreadable
from autopsy.cpython.result import RESULT
from autopsy.section import Payload
from autopsy.source import is_own

_MAX_LOCKS, _MAX_WAITS = 500, 4000


def collect(interpreter: Interpreter) -> Payload:
    """Return the section.

    Shapes: cycles of thread ids, each waiting for a lock of the next, for its end or its result;
    `left` locks were taken by a call that has returned, or by a thread that has ended;
    joins_tid of a wait for a result is the thread that has to bring it; `elsewhere`
    of a shared lock is who holds it in another process (`orphaned` when all that share it were read
    and none does); cycles_across of [pid, tid], of threads in several processes.
    """
    graph = Graph(interpreter)
    neighbours = Neighbours(graph)
    try:
        graph.find_waits()
        graph.find_holds()
        graph.find_keepers()
        neighbours.find_holders()
    except OutOfTime:
        pass  # fewer of them
    cycles = graph.cycles()
    names = _names(graph)
    locks = list(graph.locks.known.values())
    return {
        "python": interpreter.version,
        "locks": [_lock_entry(one, graph, neighbours, names) for one in locks[:_MAX_LOCKS]],
        "waits": [_wait_entry(one, graph, names) for one in graph.waits[:_MAX_WAITS]],
        "cycles": cycles,
        "cycles_across": [[list(one) for one in cycle] for cycle in neighbours.cycles()],
        "threads": [
            {"tid": one.tid, "ident": one.ident, "name": one.name, "daemon": one.daemon}
            for one in interpreter.threads
        ],
        "left_out": max(0, len(locks) - _MAX_LOCKS) + max(0, len(graph.waits) - _MAX_WAITS),
    }


def _names(graph: Graph) -> Names:
    """Name every lock and every object that is waited for."""
    locks = graph.locks.known
    wanted = {*locks, *(one.owner for one in graph.waits)}
    wanted.update(one.wrapper for one in locks.values())
    names = Names(graph.objects, wanted - {0})
    concerned = [one.thread for one in graph.waits]
    concerned += [one.holder for one in locks.values() if one.holder]
    try:
        for thread in {one.tid: one for one in concerned}.values():
            names.gather(thread.calls)
    except OutOfTime:
        pass  # a wait is worth more than its name
    return names


def _lock_entry(lock: Lock, graph: Graph, neighbours: Neighbours, names: Names) -> Payload:
    holder = lock.holder
    return {
        "id": hex(lock.address),
        "kind": lock.kind,
        "name": _name(graph, lock.address, lock.wrapper, names),
        "locked": lock.locked,
        "holder_tid": holder.tid if holder else None,
        "holder_ident": lock.ident,
        "holder_name": lock.keeper or (holder.name if holder else ""),
        "holder_alive": None if lock.ident is None else holder is not None,
        "held_at": lock.where.frame.payload(lock.where.line) if lock.where else None,
        "count": lock.count,
        "shared": lock.kind == SEMLOCK,
        "left": lock.left and lock.kind != SEMLOCK,
        **neighbours.entry(lock),
    }


def _wait_entry(wait: Wait, graph: Graph, names: Names) -> Payload:
    calls = wait.thread.calls
    name = wait.joins_name if wait.purpose != RESULT else ""
    where = next((one for one in calls if is_own(one.code.file)), calls[0])
    return {
        "tid": wait.thread.tid,
        "thread": wait.thread.name,
        "for": wait.purpose,
        "lock": hex(wait.lock) if wait.lock else None,
        "name": name or _name(graph, wait.lock, wait.owner, names),
        "timed": wait.timed,
        "joins_tid": wait.joins.tid if wait.joins else None,
        "joins": wait.joins_name or None,
        "at": where.payload(),
    }


def _name(graph: Graph, lock: int, owner: int, names: Names) -> str:
    """Return the best name there is for what is held or waited for; else that of its type."""
    known, objects = graph.locks.known.get(lock), graph.objects
    try:
        if known is not None and known.kind == MODULE_LOCK:
            return f"import of {objects.text(objects.attribute(lock, 'name'))}"
        return names.of(lock, owner) or (objects.type_of(owner).short_name if owner else "")
    except (Unreadable, OutOfTime):
        return ""
