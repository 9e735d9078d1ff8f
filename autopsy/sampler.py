"""What a patient notes of itself once a second: each thread's stack, memory, descriptors, tasks.

Secret: how to look at running threads without disturbing them. Looking makes no call that gives the
GIL away, runs no code of the program and keeps no frame, so that what threads leave is destroyed by
them and not by ours. Lines are worked out once for each new stack, afterwards. Light: imported
inside the patient; used by one thread, whose own stack is left out.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import threading
from collections.abc import Iterator
from itertools import islice
from types import AsyncGeneratorType, CodeType, CoroutineType, FrameType, GeneratorType
from typing import Any, NamedTuple

from autopsy import clock, stackring
from autopsy.stackring import UNKNOWN, Facts, Full, Sample, Shapes, StackRing

PERIOD_S = 1.0
#: Woken up a little early, a sample is not put off by a whole beat.
_EARLY_S = 0.1
MAX_CALLS = 100
MAX_THREADS = 64
MAX_TASKS = 50
#: Descriptors are counted this often where the kernel does not know their number by itself.
_COUNT_EVERY = 10
#: New stacks of one sample take no more than this; the others are looked up a second later.
_BUDGET_BYTES = 32 << 10
#: Keys remembered at most; many are one stack at other places of the same lines.
_MAX_KEYS = 256
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# The ids of code objects and the positions in them, by turns; two equal keys are one stack.
_Key = tuple[int, ...]


class _Seen(NamedTuple):
    """A stack as it was seen; `codes` is empty where the key is known already."""

    key: _Key
    codes: tuple[CodeType, ...]


class _Look(NamedTuple):
    """One look at all threads and at some tasks; `tasks` is how many there are, -1 unknown."""

    threads: list[tuple[int, _Seen]]
    tasks: int
    shapes: list[_Seen]


class Sampler:
    """Writes the samples of this process; `lost` counts those that could not be taken."""

    def __init__(self, fd: int) -> None:
        self._ring = StackRing(fd)
        self._pid = os.getpid()
        self._due = 0.0
        self._taken = 0
        self.lost = 0
        self._forget()

    def turn(self, attempt: int) -> None:
        """Take a sample if one is due. Never raises, and does nothing in a forked child."""
        now = clock.mono()
        if now < self._due or not self._ring.window_s or os.getpid() != self._pid:
            return
        self._due = now + PERIOD_S - _EARLY_S
        try:
            self._sample(attempt, now)
        except Exception:  # whatever a program does to its interpreter, its worker must go on
            self.lost += 1

    def _sample(self, attempt: int, now: float) -> None:
        if len(self._stacks) > _MAX_KEYS:
            self._stacks.clear()
        look = self._look()
        facts = self._facts(attempt, now, look.tasks)
        try:
            self._write(look, facts)
        except Full:
            # The other half starts with what is current; this one stays readable meanwhile.
            self._forget()
            self._ring.turn()
            self._write(self._look(), facts)
        self._taken += 1

    def _forget(self) -> None:
        self._code_numbers: dict[int, int] = {}
        self._codes: list[CodeType] = []  # kept alive: their ids are our keys
        self._lines: dict[tuple[int, int], int] = {}
        self._stacks: dict[_Key, int] = {}
        self._stacks_by_line: dict[bytes, int] = {}
        self._threads: dict[tuple[int, int], int] = {}
        self._current: dict[int, int] = {}
        self._shapes = Shapes(0, ())

    def _look(self) -> _Look:
        collects = gc.isenabled()
        gc.disable()  # a collection in here would run the program's finalizers in our thread
        try:
            tasks, shapes = self._look_at_tasks()
            return _Look(self._look_at_threads(), tasks, shapes)
        finally:
            if collects:
                gc.enable()

    def _look_at_threads(self) -> list[tuple[int, _Seen]]:
        frames = sys._current_frames()
        frames.pop(threading.get_ident(), None)
        main = threading.main_thread().ident or 0
        order = [main] if main in frames else []
        # The interpreter lists the newest first; those that are there for long say more.
        order += [ident for ident in reversed(frames) if ident != main]
        return [(ident, self._seen(_calls(frames[ident]))) for ident in order[:MAX_THREADS]]

    def _look_at_tasks(self) -> tuple[int, list[_Seen]]:
        module: Any = sys.modules.get("asyncio.tasks")
        names = ("_all_tasks", "_scheduled_tasks")  # the latter since Python 3.12
        found = [getattr(module, name).data for name in names if hasattr(module, name)]
        if not found:
            return -1, []
        task_type = module.Task
        shapes = []
        for reference in islice(found[0], MAX_TASKS):
            task = reference()
            if isinstance(task, task_type) and not task_type.done(task):
                shapes.append(self._seen(_awaits(task_type.get_coro(task))))
        return len(found[0]), shapes

    def _seen(self, calls: list[tuple[CodeType, int]]) -> _Seen:
        key = tuple([number for code, at in calls for number in (id(code), at)])
        known = key in self._stacks
        return _Seen(key, () if known else tuple([code for code, _ in calls]))

    def _facts(self, attempt: int, now: float, tasks: int) -> Facts:
        return Facts(
            mono=now,
            wall=clock.now().timestamp(),
            attempt=attempt & 0xFFFFFFFF,
            rss_bytes=_rss_bytes(),
            threads=os.stat("/proc/self/task").st_nlink - 2,  # noqa: PTH116 - a Path costs more
            fds=_descriptors(count=self._taken % _COUNT_EVERY == 0),
            tasks=tasks,
        )

    def _write(self, look: _Look, facts: Facts) -> None:
        left = set(self._current)
        budget = _BUDGET_BYTES
        moved: list[tuple[int, int]] = []
        for ident, seen in look.threads:
            thread = self._thread_number(ident)
            stack, took = self._stack_number(seen) if budget > 0 else (UNKNOWN, 0)
            budget -= took
            left.discard(thread)
            if self._current.get(thread) != stack:
                moved.append((thread, stack))
        self._write_shapes(look.shapes, budget)
        self._ring.append(stackring.pack_sample(Sample(facts, tuple(moved), tuple(left))))
        # Only now: a sample that found the half full has told nobody of this.
        self._current.update(moved)
        for thread in left:
            del self._current[thread]

    def _write_shapes(self, seen: list[_Seen], budget: int) -> None:
        counts: dict[int, int] = {}
        for one in seen:
            stack, took = self._stack_number(one) if budget > 0 else (UNKNOWN, 0)
            budget -= took
            counts[stack] = counts.get(stack, 0) + 1
        shapes = Shapes(len(seen), tuple(sorted(counts.items())))
        if shapes != self._shapes:
            self._ring.append(stackring.pack_tasks(shapes))
            self._shapes = shapes

    def _thread_number(self, ident: int) -> int:
        thread: Any = threading._active.get(ident)  # type: ignore[attr-defined]
        # A thread that was forked remembers the number it had in the parent.
        is_main = thread is threading.main_thread()
        tid = self._pid if is_main else getattr(thread, "_native_id", None) or 0
        number = self._threads.get((ident, tid))
        if number is None:
            name = str(getattr(thread, "_name", ""))
            self._ring.append(stackring.pack_thread(ident, tid, name))
            number = self._threads[ident, tid] = len(self._threads)
        return number

    def _stack_number(self, seen: _Seen) -> tuple[int, int]:
        """Return the number of a stack, and how many bytes it took to tell of it."""
        number = self._stacks.get(seen.key)
        if number is not None:
            return number, 0
        took = 0
        calls: list[int] = []
        for code, at in zip(seen.codes, seen.key[1::2], strict=True):
            code_number, more = self._code_number(code)
            took += more
            calls += (code_number, self._line(code, at))
        body = stackring.pack_stack(calls, len(seen.codes) >= MAX_CALLS)
        number = self._stacks_by_line.get(body)
        if number is None:
            self._ring.append(body)
            took += len(body)
            number = self._stacks_by_line[body] = len(self._stacks_by_line)
        self._stacks[seen.key] = number
        return number, took

    def _code_number(self, code: CodeType) -> tuple[int, int]:
        number = self._code_numbers.get(id(code))
        if number is not None:
            return number, 0
        name = getattr(code, "co_qualname", code.co_name)
        body = stackring.pack_code(name, code.co_filename)
        self._ring.append(body)
        self._codes.append(code)
        number = self._code_numbers[id(code)] = len(self._codes) - 1
        return number, len(body)

    def _line(self, code: CodeType, at: int) -> int:
        line = self._lines.get((id(code), at))
        if line is None:
            spans = ((found or 0) for begin, end, found in code.co_lines() if begin <= at < end)
            line = self._lines[id(code), at] = next(spans, 0) or code.co_firstlineno
        return line


def _calls(frame: FrameType | None) -> list[tuple[CodeType, int]]:
    """Return the innermost calls of a thread, innermost first."""
    found: list[tuple[CodeType, int]] = []
    while frame is not None and len(found) < MAX_CALLS:
        found.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return found


def _awaits(outermost: object) -> list[tuple[CodeType, int]]:
    """Return the calls of a task, innermost first: what it awaits, down to a future."""
    found = [
        (frame.f_code, frame.f_lasti)
        for frame in islice(_awaited(outermost), MAX_CALLS)
        if frame is not None
    ]
    return found[::-1]


def _awaited(one: object) -> Iterator[FrameType | None]:
    """Only the interpreter's own kinds of coroutine: reading those runs no code of the program."""
    while True:
        if type(one) is CoroutineType:
            frame, one = one.cr_frame, one.cr_await
        elif type(one) is GeneratorType:
            frame, one = one.gi_frame, one.gi_yieldfrom
        elif type(one) is AsyncGeneratorType:
            frame, one = one.ag_frame, one.ag_await
        else:
            return
        yield frame


def _rss_bytes() -> int:
    """Return the resident memory; the peak of it where no descriptor is left to read that with."""
    try:
        fd = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    try:
        return int(os.read(fd, 200).split()[1]) * _PAGE_BYTES
    finally:
        os.close(fd)


def _descriptors(*, count: bool) -> int:
    """Return how many are open: the size of their directory (Linux 6.2), or counted; -1 not now."""
    known = os.stat("/proc/self/fd").st_size  # noqa: PTH116 - a Path costs more
    if known or not count:
        return known or -1
    try:
        return len(os.listdir("/proc/self/fd")) - 1  # the one that lists them among them
    except OSError:
        return -1  # none is left to list them with
