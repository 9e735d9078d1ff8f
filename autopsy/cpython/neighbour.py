"""Locks that several processes share: who holds one in another process, read in that one.

Secret: a semaphore is the same when it lies in the same file of shared memory. All processes that
have it mapped are read; when none of them holds it, whoever did has died.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from autopsy import clock
from autopsy.collect import procfs
from autopsy.cpython import layout as at
from autopsy.cpython.census import find, with_subclasses
from autopsy.cpython.circle import circles
from autopsy.cpython.interpreter import Interpreter, Thread, open_interpreter
from autopsy.cpython.lock import SEMLOCK, Lock
from autopsy.cpython.lockgraph import Graph
from autopsy.cpython.reader import OutOfTime, Unreadable
from autopsy.section import Payload, Skipped
from autopsy.source import is_own

# Device, inode and place in it: what one semaphore is to all who share it.
Shared = tuple[str, int, int]
# A process and one of its threads.
Member = tuple[int, int]

_MAPPING = re.compile(r"^(\w+)-(\w+) rw-s (\w+) (\S+) (\d+) +(\S*)", re.MULTILINE)
_MAPS_LIMIT = 8 << 20
_SEARCH_S, _OPENING_S = 0.35, 0.3
_MAX_PROCESSES = 64


@dataclass(frozen=True, slots=True)
class _Holder:
    """The thread of another process that holds a semaphore."""

    pid: int
    thread: Thread | None
    at: Payload | None


class Neighbours:
    """The other processes that share the locks of one."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._complete = True
        self._searched: set[Shared] = set()
        self._holders: dict[Shared, _Holder] = {}
        self._waits: dict[Member, Shared] = {}
        self._waiting: dict[Member, tuple[Interpreter, Thread]] = {}
        self._own: dict[int, Shared] = {}

    def find_holders(self) -> None:
        """Find who holds the shared locks that are waited for and that nobody here has."""
        graph, pid = self._graph, self._graph.interpreter.pid
        shared = [
            one
            for one in graph.locks.known.values()
            if one.kind == SEMLOCK and graph.locks.is_exclusive(one.address)
        ]
        mappings = _mappings(pid)
        self._own = {one.address: _place(graph, one.address, mappings) for one in shared}
        self._note(graph, mappings)
        wanted = {self._own[one.address] for one in shared if one.locked and one.holder is None}
        if not wanted:
            return
        self._searched = wanted
        files = {place[:2] for place in wanted}
        until = clock.mono() + _SEARCH_S
        for other in _sharing(files, pid, until):
            if clock.mono() > until:
                self._complete = False
                break
            self._read(other, until)

    def _read(self, pid: int, until_mono: float) -> None:
        try:
            interpreter = open_interpreter(pid, min(until_mono, clock.mono() + _OPENING_S))
            graph = Graph(interpreter)
            for address in _all_shared(interpreter, until_mono):
                graph.locks.note(address)
            graph.find_waits()
            graph.find_holds()
            self._note(graph, _mappings(pid))
        except (Skipped, Unreadable, OutOfTime):
            self._complete = False

    def _note(self, graph: Graph, mappings: list[tuple[int, int, Shared]]) -> None:
        """Keep what one process holds and waits for, by what all of them call the same."""
        pid = graph.interpreter.pid
        for one in graph.locks.known.values():
            if one.kind == SEMLOCK and one.ident is not None:
                where = one.where.frame.payload(one.where.line) if one.where else None
                if where is None and one.holder is not None:
                    where = _own_call(one.holder)
                place = _place(graph, one.address, mappings)
                self._holders[place] = _Holder(pid, one.holder, where)
        for wait in graph.waits:
            lock = graph.locks.known.get(wait.lock)
            if lock is not None and lock.kind == SEMLOCK:
                self._waits[pid, wait.thread.tid] = _place(graph, wait.lock, mappings)
                self._waiting[pid, wait.thread.tid] = graph.interpreter, wait.thread

    def entry(self, lock: Lock) -> Payload:
        """Return what the section says of a shared lock that nobody here holds."""
        place = self._own.get(lock.address)
        if place is None or place not in self._searched:
            return {}
        holder = self._holders.get(place)
        if holder is None:
            return {"elsewhere": None, "orphaned": self._complete}
        return {
            "elsewhere": {
                "pid": holder.pid,
                "tid": holder.thread.tid if holder.thread else None,
                "thread": holder.thread.name if holder.thread else "",
                "at": holder.at,
            },
            "orphaned": False,
        }

    def cycles(self) -> list[list[Member]]:
        """Return circles of threads in different processes, each waiting for the next."""
        following: dict[Member, list[Member]] = {}
        for member, place in self._waits.items():
            holder = self._holders.get(place)
            if holder is not None and holder.thread is not None:
                following[member] = [(holder.pid, holder.thread.tid)]
        return [
            circle
            for circle in circles(following)
            if len({pid for pid, _ in circle}) > 1 and all(map(self._still_waits, circle))
        ]

    def _still_waits(self, member: Member) -> bool:
        """Whether it has slept until all were read: then there was a moment when all of it held."""
        interpreter, thread = self._waiting[member]
        return interpreter.has_rested(thread)


def _own_call(thread: Thread) -> Payload | None:
    call = next((one for one in thread.calls if is_own(one.code.file)), None)
    return call.payload() if call else None


def _all_shared(interpreter: Interpreter, until_mono: float) -> list[int]:
    """Return every lock between processes that a process knows."""
    kind = interpreter.variables("multiprocessing.synchronize").get("SemLock", 0)
    if not kind:
        return []
    objects = interpreter.objects
    wrappers = find(interpreter, with_subclasses(interpreter, kind), until_mono).objects
    found = (objects.attribute(one, "_semlock") for one in wrappers)
    return [one for one in found if objects.is_a(one, "_multiprocessing.SemLock")]


def _mappings(pid: int) -> list[tuple[int, int, Shared]]:
    """Return the shared mappings of a process: from where to where, of which file."""
    text = procfs.read_text(f"/proc/{pid}/maps", _MAPS_LIMIT) or ""
    return [
        (int(start, 16), int(end, 16), (device, int(inode), int(offset, 16)))
        for start, end, offset, device, inode, _ in _MAPPING.findall(text)
    ]


def _place(graph: Graph, lock: int, mappings: list[tuple[int, int, Shared]]) -> Shared:
    handle = graph.interpreter.memory.word(lock + at.SEMLOCK_HANDLE)
    for start, end, (device, inode, offset) in mappings:
        if start <= handle < end:
            return device, inode, offset + handle - start
    return "private", graph.interpreter.pid, handle


def _sharing(files: set[tuple[str, int]], pid: int, until_mono: float) -> list[int]:
    """Return the other processes that have one of these files mapped."""
    found: list[int] = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == pid:
            continue
        if clock.mono() > until_mono or len(found) >= _MAX_PROCESSES:
            break
        if any(place[:2] in files for _, _, place in _mappings(int(name))):
            found.append(int(name))
    return found
