"""The sections of one capture joined per thread, as the rules of `diagnose` want to read them.

Secret: how the two looks, the stacks, the descriptors and the sockets are matched. Pure: the same
sections, from a capture or from a bundle read back, give the same case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from autopsy.cpu import CpuShare, counted, shared
from autopsy.section import Payload
from autopsy.shape import fitted
from autopsy.source import is_own

_DEAD = "ZX"
# Threads a supervisor runs beside the task; what they wait for says nothing about it.
_OWN_PREFIXES = ("supervisor-", "autopsy-")
_FUTEX_TIMEOUT = 3  # index of the argument
# More wake-ups in the window than this are movement, not the trace of our own dump.
_STILL_SWITCHES = 4
# More than threads that take turns at the interpreter every 5 ms: it waits for somebody else.
_GIL_SWITCHES = 60
_HOT_RATIO = 0.6
# One that hardly ran and hardly ever gave up the CPU may have slept for this much of the window: an
# error of measurement, or waits for the interpreter.
_HARDLY, _SLEPT_LITTLE = 0.1, 0.3
_ENOUGH_LOOKS = 10
# A share of the looks: a loop of Python is rarely on one instruction for so long.
_MOSTLY_NATIVE = 0.85
# A loop that only asks for something uses next to no CPU and stands in few places.
_WORKS, _LINES_MANY = 0.02, 3
_OWN_TOLD = 3
_LOOPS = ("_run_once", "run_forever")


@dataclass(frozen=True, slots=True)
class Frame:
    """One call of a stack; `function` is the last part of a qualified name.

    `inside` are the expressions of the `with` blocks around its line, innermost first, `loop` the
    head of the innermost loop around it.
    """

    function: str
    file: str
    line: int
    source: str
    native: bool
    inside: tuple[str, ...] = ()
    loop: str = ""

    def __str__(self) -> str:
        return f"{self.function} ({self.file}:{self.line})"

    @property
    def own(self) -> bool:
        """Whether it is the program's own code, neither the library's nor a package's."""
        return bool(self.file) and not self.native and is_own(self.file)


@dataclass(frozen=True, slots=True)
class Motion:
    """Where a thread stood at many moments: `most` of the `looks` on one and the same instruction.

    `lines` are the program's own lines it was seen in, `functions` those of their functions;
    without `calls` that instruction cannot be native code that takes long. `instant` looks found it
    on such an instruction, where it can only run or wait to run. `place` is where it was mostly.
    """

    looks: int = 0
    most: int = 0
    lines: int = 0
    functions: int = 0
    calls: bool = True
    instant: int = 0
    place: str = ""

    @property
    def known(self) -> bool:
        """Whether there were enough looks to say anything."""
        return self.looks >= _ENOUGH_LOOKS

    @property
    def steady(self) -> float:
        """The share of the looks that found it on one instruction."""
        return self.most / self.looks if self.looks else 0.0

    @property
    def steps(self) -> bool:
        """Whether it goes from instruction to instruction, as a loop of Python does."""
        return self.steady < _MOSTLY_NATIVE or not self.calls

    @property
    def instant_ratio(self) -> float:
        """The share of the looks that found it where nothing sleeps; 0 when they were too few."""
        return self.instant / self.looks if self.known else 0.0

    def __str__(self) -> str:
        return f"{self.most} of {self.looks} looks on one instruction, {self.lines} lines in all"


@dataclass(frozen=True)
class Thread:
    """One living thread: what the kernel and the interpreter said about it, in both looks."""

    tid: int
    name: str
    main: bool
    state: str
    state_after: str
    wchan: str
    wchan_after: str
    syscall: str | None
    args: tuple[int, ...]
    waits_on: tuple[int, ...]
    cpu: CpuShare
    switches: int
    frames: tuple[Frame, ...]
    frames_after: tuple[Frame, ...]
    owns_gil: tuple[bool, ...]
    sleep_left_s: float | None
    timeout_left_s: float | None
    motion: Motion = Motion()

    @cached_property
    def running(self) -> bool:
        """On the CPU or in the queue for one most of the time, and not now and then asleep.

        Where the queue is not told: on the CPU in both looks.
        """
        if self.cpu.got > _HOT_RATIO:
            return True
        if self.cpu.asleep is None:
            return self.state == self.state_after == "R"
        if self.switches <= _STILL_SWITCHES and self.cpu.got < _HARDLY:
            return self.cpu.asleep < _SLEPT_LITTLE
        return self.cpu.wanted > _HOT_RATIO and self.switches <= _GIL_SWITCHES

    @cached_property
    def still(self) -> bool:
        """Neither ran nor woke in the window, and its stack is the same in both samples."""
        return not (self.running or self.switches > _STILL_SWITCHES or self.stack_moved)

    @cached_property
    def stack_moved(self) -> bool:
        return bool(self.frames_after) and self.frames != self.frames_after

    @cached_property
    def gets_on(self) -> bool:
        """Seen at work in several places: it rests or waits only between two pieces of work."""
        works = self.cpu.wanted > _WORKS
        if self.motion.known:
            seen = self.motion.functions > 1 or self.motion.lines > 2
            return (seen and works) or self.motion.lines > _LINES_MANY
        return self.stack_moved and works

    @cached_property
    def parked(self) -> bool:
        """Waits in a futex without a timeout: only another thread or process can wake it."""
        known = len(self.args) > _FUTEX_TIMEOUT
        return self.syscall == "futex" and known and self.args[_FUTEX_TIMEOUT] == 0

    def within(self, *functions: str, file: str = "", depth: int = 200) -> bool:
        """Return whether one of the innermost `depth` calls is one of these functions."""
        return any(
            frame.function in functions and file in frame.file for frame in self.frames[:depth]
        )

    @cached_property
    def in_event_loop(self) -> bool:
        """Whether it runs an event loop; one that is not written in Python shows only its start."""
        return self.within(*_LOOPS) or self.within("run", file="asyncio/runners.py")

    @cached_property
    def own_frame(self) -> Frame | None:
        """The innermost call of the program's own code."""
        return next((frame for frame in self.frames if frame.own), None)

    @cached_property
    def called(self) -> str:
        """How a person calls it: the interpreter's name of it, MainThread for the first."""
        return "MainThread" if self.main else f"thread {self.tid} ({self.name})"

    @cached_property
    def where(self) -> str:
        """The calls for evidence: the program's own, and the innermost one."""
        if not self.frames:
            return "no Python stack"
        own = [frame for frame in self.frames if frame.own][:_OWN_TOLD]
        if not own:
            return " < ".join(str(frame) for frame in self.frames[:_OWN_TOLD])
        told = " < ".join(str(frame) for frame in own)
        return told if own[0] is self.frames[0] else f"{told}, there in {self.frames[0]}"


class Case:
    """The sections of one capture, joined."""

    def __init__(self, sections: Mapping[str, Payload]) -> None:
        self.sections = fitted(sections)
        self.process = self.sections.get("process") or {}
        self.movement = self.sections.get("movement") or {}

    def listed(self, section: str, key: str) -> list[Payload]:
        """Return a list of entries of a section; empty when the section has none."""
        entries = (self.sections.get(section) or {}).get(key) or []
        return [entry for entry in entries if isinstance(entry, dict)]

    @cached_property
    def threads(self) -> list[Thread]:
        """The living threads that are the program's own, main thread first."""
        looks = self.listed("process", "threads")
        found = [self._thread(look) for look in looks if look.get("state", "Z") not in _DEAD]
        return [one for one in found if one.main or not one.name.startswith(_OWN_PREFIXES)]

    @cached_property
    def descriptors(self) -> dict[int, str]:
        listed = self.listed("fds", "fds")
        return {one["fd"]: one["target"] for one in listed if "fd" in one}

    @cached_property
    def sockets(self) -> dict[int, Payload]:
        return {one["fd"]: one for one in self.listed("sockets", "sockets") if "fd" in one}

    @cached_property
    def children(self) -> list[Payload]:
        return [one for one in self.listed("children", "children") if "pid" in one]

    @property
    def facts(self) -> Payload:
        """What the caller knew: a supervisor its verdict, from the probes."""
        return self.sections.get("facts") or {}

    @property
    def memory(self) -> Payload:
        return self.sections.get("memory") or {}

    @cached_property
    def pid(self) -> int:
        """The id of the process, which is that of its main thread; 0 when nothing was seen."""
        looks = self.listed("process", "threads")
        return int(looks[0]["tid"]) if looks else 0

    @cached_property
    def lock_waits(self) -> dict[int, Payload]:
        """What each thread waits for, as read in the interpreter's own lock objects."""
        return {one["tid"]: one for one in self.listed("thread_locks", "waits") if "tid" in one}

    @cached_property
    def tasks(self) -> dict[str, Payload]:
        """The tasks of the event loops that were read, by id."""
        return {one["id"]: one for one in self.listed("asyncio", "tasks") if "id" in one}

    @cached_property
    def backends(self) -> list[Payload]:
        """The sessions of database servers that have to do with this process."""
        servers = self.listed("databases", "postgresql")
        return [one for server in servers for one in server.get("backends") or [] if "pid" in one]

    def lock(self, identity: str | None) -> Payload:
        """Return what was read of a lock object; empty when nothing was."""
        return self._locks.get(identity or "", {})

    def thread(self, tid: int) -> Thread | None:
        """Return the living thread with this id."""
        return self._by_tid.get(tid)

    @cached_property
    def unparked(self) -> list[Thread]:
        """The threads that do not only wait to be woken by others."""
        return [one for one in self.threads if not one.parked]

    @cached_property
    def _by_tid(self) -> dict[int, Thread]:
        return {one.tid: one for one in self.threads}

    @cached_property
    def _locks(self) -> dict[str, Payload]:
        return {one["id"]: one for one in self.listed("thread_locks", "locks") if "id" in one}

    @cached_property
    def is_python(self) -> bool | None:
        """Whether Python runs in it: py-spy's yes beats what the names of files say."""
        if self.samples:
            return True
        known = self.process.get("python")
        return None if known is None else bool(known)

    def is_shared(self, address: int) -> bool:
        """Return whether an address lies in memory shared with other processes."""
        return any(
            one["start"] <= address < one["end"]
            for one in self.listed("memory", "shared_mappings")
            if "start" in one
        )

    def pipe_peers(self, target: str) -> list[Payload]:
        """Return who else has a pipe open: pid, name and end of each."""
        peers = (self.sections.get("fds") or {}).get("pipe_peers") or {}
        return [one for one in peers.get(target) or [] if "pid" in one]

    @property
    def throttled(self) -> float:
        """The share of periods in which the CPU limit of its control group was used up."""
        cgroup = (self.sections.get("host") or {}).get("cgroup") or {}
        return float((cgroup.get("cpu") or {}).get("throttled_ratio") or 0)

    @property
    def parent(self) -> int:
        """The pid of the parent; 0 when it is not known."""
        return int((self.process.get("status") or {}).get("PPid") or 0)

    def pipe_child(self, target: str) -> Payload | None:
        """Return a living child that has this pipe open."""
        return next(
            (one for one in self.children if target in one["pipes"] and one["state"] != "Z"), None
        )

    @cached_property
    def _after(self) -> dict[int, Payload]:
        return {one["tid"]: one for one in self.listed("movement", "threads") if "tid" in one}

    @cached_property
    def _motions(self) -> dict[int, Motion]:
        return {
            one["tid"]: Motion(
                looks=one["looks"],
                most=one["most"],
                lines=len(one["places"]),
                functions=len({(place["file"], place["function"]) for place in one["places"]}),
                calls=one.get("calls", True),
                instant=_instant(one),
                place=next(map(_place, one["places"]), ""),
            )
            for one in self.listed("motion", "threads")
            if "looks" in one
        }

    @cached_property
    def _window_s(self) -> float:
        elapsed = float(self.movement.get("at_ms", 0)) - float(self.process.get("at_ms", 0))
        return max(elapsed / 1000, 0.001)

    @cached_property
    def samples(self) -> list[Payload]:
        """The stack samples that show threads."""
        return [one for one in self.listed("stacks", "samples") if one.get("threads")]

    @cached_property
    def _stacks(self) -> list[tuple[Frame, ...]]:
        stacks = (self.sections.get("stacks") or {}).get("stacks") or []
        return [
            tuple(
                Frame(
                    str(one["function"]).rpartition(".")[2],
                    one["file"],
                    one["line"],
                    one.get("source", ""),
                    bool(one.get("native")),
                    tuple(one.get("inside", ())),
                    one.get("loop", ""),
                )
                for one in stack
                if "function" in one
            )
            for stack in stacks
            if isinstance(stack, list)
        ]

    def stack_in(self, sample: int, tid: int) -> tuple[Frame, ...]:
        """Return a thread's stack in one sample, innermost call first; empty if unknown."""
        index = int(self._sampled[sample].get(tid, {}).get("stack", -1))
        return self._stacks[index] if 0 <= index < len(self._stacks) else ()

    @cached_property
    def _sampled(self) -> list[dict[int, Payload]]:
        """The threads of each sample by their ids."""
        return [
            {one["tid"]: one for one in sample["threads"] if "tid" in one}
            for sample in self.samples
        ]

    @cached_property
    def _own_ratio(self) -> float:
        """The share of the window in which a supervisor's threads had the interpreter, at most."""
        shares = [
            counted(look, self._after[look["tid"]], self._window_s)
            for look in self.listed("process", "threads")
            if look["name"].startswith(_OWN_PREFIXES) and look["tid"] in self._after
        ]
        return sum(got + (waited or 0.0) for got, waited in shares)

    def _thread(self, look: Payload) -> Thread:
        tid = int(look["tid"])
        after = self._after.get(tid, look)
        looks = self._sampled[:2]
        seen = [sampled[tid] for sampled in looks if tid in sampled]
        stacks = [self.stack_in(number, tid) for number in range(len(looks))]
        motion = self._motions.get(tid, Motion())
        return Thread(
            tid=tid,
            name=str(seen[0]["name"]) if seen and seen[0]["name"] else str(look["name"]),
            main=tid == self.pid,
            state=look["state"],
            state_after=after["state"],
            wchan=look["wchan"],
            wchan_after=after["wchan"],
            syscall=look["syscall"],
            args=tuple(look["args"]),
            waits_on=tuple(look["waits_on"]),
            cpu=shared(look, after, self._window_s, self._own_ratio, motion.instant_ratio),
            switches=after["switches"] - look["switches"],
            frames=stacks[0] if stacks else (),
            frames_after=stacks[1] if len(stacks) > 1 else (),
            owns_gil=tuple(bool(one["owns_gil"]) for one in seen),
            sleep_left_s=look.get("sleep_left_s"),
            timeout_left_s=look.get("timeout_left_s"),
            motion=motion,
        )


def _place(one: Payload) -> str:
    return f"{one['function']} ({one['file']}:{one.get('line', '?')})"


def _instant(one: Payload) -> int:
    """An older bundle tells of the instruction that was seen most often alone."""
    return int(one["instant"]) if "instant" in one else 0 if one.get("calls", True) else one["most"]
