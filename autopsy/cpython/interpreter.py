"""A Python interpreter seen from outside: its threads, its modules, its objects.

Secret: how it is found and what proves that it is one of the version we know. Raises Skipped with
the reason, in words for a person, when it cannot be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from autopsy.collect import procfs
from autopsy.cpython import elf
from autopsy.cpython import layout as at
from autopsy.cpython.frame import Frame, Frames
from autopsy.cpython.objects import Objects
from autopsy.cpython.reader import Memory, OutOfTime, Unreadable
from autopsy.section import Skipped

_RUNTIME, _VERSION = "_PyRuntime", "Py_Version"
_MAX_THREADS = 4000
# As many calls as are asked for locks they hold; a recursion of 50,000 says the same over and over.
_MAX_CALLS = 1000
_SWITCHES = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")


@dataclass(frozen=True, slots=True)
class Rest:
    """The system call a thread is in, and how often it has been on a CPU before.

    Two that are equal prove that it did nothing in between. `native` is its id as it sees it, which
    in a container is another one.
    """

    syscall: str | None
    arguments: tuple[int, ...]
    switches: tuple[str, ...]
    native: int = 0


_NO_REST = Rest(None, (), ())


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread the interpreter knows: its ids, its name and its calls, innermost first.

    `address` is its state in the interpreter, `python` its `threading.Thread`, 0 without one;
    `rest` is where it slept before anything was read.
    """

    address: int
    tid: int
    ident: int
    name: str
    daemon: bool | None
    python: int
    rest: Rest
    calls: tuple[Frame, ...]


class Interpreter:
    """The main interpreter of a process."""

    def __init__(
        self, pid: int, memory: Memory, address: int, version: str, rests: dict[int, Rest]
    ) -> None:
        self.pid = pid
        self._rests = rests
        self._tids = {rest.native: tid for tid, rest in rests.items()}
        self.version = version
        self.memory = memory
        self.objects = Objects(memory)
        self.frames = Frames(self.objects)
        self._address = address

    def again(self) -> Interpreter:
        """Return the same interpreter for a second look, at what its memory holds now."""
        memory = Memory(self.pid, self.memory.deadline_mono)
        return Interpreter(self.pid, memory, self._address, self.version, self._rests)

    @property
    def generations(self) -> tuple[int, ...]:
        """Where the lists of the garbage collector begin, youngest first."""
        return tuple(self._address + one for one in at.INTERPRETER_GENERATIONS)

    @cached_property
    def modules(self) -> dict[str, int]:
        """The loaded modules by name."""
        held = self.memory.word(self._address + at.INTERPRETER_MODULES)
        return self.objects.named_items(held, 1 << 20)

    def variables(self, module: str) -> dict[str, int]:
        """Return the variables of a module; empty when it is not loaded."""
        address = self.modules.get(module, 0)
        if not self.objects.is_a(address, "builtins.module"):
            return {}
        try:
            return self.objects.named_items(self.memory.word(address + at.MODULE_DICT))
        except Unreadable:
            return {}

    @cached_property
    def threads(self) -> list[Thread]:
        """The threads that run Python, newest first."""
        return list(self._read_threads())

    @cached_property
    def thread_objects(self) -> dict[int, int]:
        """The `threading.Thread` objects by ident."""
        objects, found = self.objects, {}
        active = self.variables("threading").get("_active", 0)
        try:
            for ident, thread in objects.items(active, _MAX_THREADS):
                found[objects.integer(ident)] = thread
        except Unreadable:
            return found
        return found

    def thread_of_loop(self, loop: int) -> Thread | None:
        """Return the thread that runs an event loop of asyncio."""
        file, function = "asyncio/base_events.py", "run_forever"
        for thread in self.threads:
            running = (one for one in thread.calls if one.is_in(file, function))
            if any(one.local("self") == loop for one in running):
                return thread
        return None

    def _read_threads(self) -> list[Thread]:
        memory, found = self.memory, []
        alive = set(procfs.thread_ids(self.pid))
        address = memory.word(self._address + at.INTERPRETER_THREADS)
        seen: set[int] = set()
        while address and address not in seen and len(seen) < _MAX_THREADS:
            seen.add(address)
            try:
                found.append(self._read_thread(address, alive))
                address = memory.word(address + at.THREAD_NEXT)
            except (Unreadable, OutOfTime):  # ended while it was read, or there are too many
                break
        return found

    def _read_thread(self, address: int, alive: set[int]) -> Thread:
        memory = self.memory
        if memory.word(address + at.THREAD_INTERPRETER) != self._address:
            raise Unreadable
        ident = memory.word(address + at.THREAD_IDENT)
        native = memory.word(address + at.THREAD_NATIVE)
        # The one thread that a fork leaves keeps the number of the thread that forked.
        tid = self._tids.get(native) or (native if native in alive else self.pid)
        python = self.thread_objects.get(ident, 0)
        return Thread(
            address=address,
            tid=tid,
            ident=ident,
            name=self.thread_name(python),
            daemon=self._is_daemon(python),
            python=python,
            rest=self._rests.get(tid, _NO_REST),
            calls=self._calls(memory.word(address + at.THREAD_CFRAME)),
        )

    def has_rested(self, thread: Thread) -> bool:
        """Return whether a thread has slept since before its calls were read: they are right."""
        return thread.rest.syscall is not None and _rest_of(self.pid, thread.tid) == thread.rest

    def _calls(self, cframe: int) -> tuple[Frame, ...]:
        found: list[Frame] = []
        try:
            frame = self.memory.word(cframe + at.CFRAME_FRAME)
            found.extend(self.frames.calls(frame, _MAX_CALLS))
        except Unreadable:
            return ()
        return tuple(found)

    def thread_name(self, thread: int) -> str:
        """Return the name of a `threading.Thread`; empty when there is none."""
        try:
            return self.objects.text(self.objects.attribute(thread, "_name")) if thread else ""
        except Unreadable:
            return ""

    def _is_daemon(self, thread: int) -> bool | None:
        try:
            value = self.objects.attribute(thread, "_daemonic") if thread else 0
            return bool(self.objects.integer(value)) if value else None
        except Unreadable:
            return None


def _rest_of(pid: int, tid: int) -> Rest:
    base = f"/proc/{pid}/task/{tid}"
    status = procfs.status(f"{base}/status") or {}
    syscall, arguments = procfs.current_syscall(f"{base}/syscall")
    switches = tuple(status.get(one, "") for one in _SWITCHES)
    inside = status.get("NSpid", str(tid)).split()[-1]
    return Rest(syscall, tuple(arguments), switches, int(inside))


def open_interpreter(pid: int, deadline_mono: float) -> Interpreter:
    """Find the interpreter of a process and make sure that it can be read.

    Raises Skipped.
    """
    try:
        memory = Memory(pid, deadline_mono)
    except PermissionError as exc:
        raise Skipped("its memory is hidden from us: this needs CAP_SYS_PTRACE") from exc
    except OSError as exc:
        raise Skipped("the process has no memory of its own any more") from exc
    # Before anything is read: what is read for one thread may hold a part of another's calls.
    rests = {tid: _rest_of(pid, tid) for tid in procfs.thread_ids(pid)[:_MAX_THREADS]}
    symbols = _symbols(pid, memory)
    try:
        return _checked(pid, memory, symbols, rests)
    except Unreadable as exc:
        raise Skipped("its interpreter is starting, ending, or built in a way unknown") from exc


def _symbols(pid: int, memory: Memory) -> dict[str, int]:
    for image, _path in elf.find_images(pid):
        try:
            found = elf.find_symbols(memory, image, (_RUNTIME, _VERSION))
        except Unreadable:
            continue
        if _RUNTIME in found:
            return found
    raise Skipped("no Python interpreter is mapped into it")


def _checked(
    pid: int, memory: Memory, symbols: dict[str, int], rests: dict[int, Rest]
) -> Interpreter:
    """Return the interpreter after what it says of itself has proved to be true."""
    # The symbol came with 3.11.
    number = memory.word(symbols[_VERSION]) if _VERSION in symbols else 0
    version = f"{number >> 24}.{number >> 16 & 255}.{number >> 8 & 255}" if number else "older"
    if number >> 16 != at.SUPPORTED:
        raise Skipped(f"reads CPython 3.11 only; this is {version}")
    runtime = symbols[_RUNTIME]
    address = memory.word(runtime + at.RUNTIME_INTERPRETER)
    if memory.word(address + at.INTERPRETER_RUNTIME) != runtime:
        raise Unreadable
    found = Interpreter(pid, memory, address, version, rests)
    if "sys" not in found.modules or "hexversion" not in found.variables("sys"):
        raise Unreadable
    hexversion = found.objects.integer(found.variables("sys")["hexversion"])
    if hexversion != number:
        raise Unreadable
    return found
