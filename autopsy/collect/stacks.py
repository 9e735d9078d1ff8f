"""The Python stacks of every thread, twice, by the gentlest method that works.

Secret: which method suits which scheduler state. Asleep, stopped, frozen or uninterruptible:
py-spy without ptrace stop, exact because nothing moves. On the CPU: a short blocking dump, because
reading a moving stack invents frames. No py-spy: the interpreter's memory, or the patient's own
faulthandler; nothing at all: the newest samples of its own ring.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from autopsy import clock
from autopsy.collect import cgroup, faultdump, history, memorystack, procfs
from autopsy.collect.patient import DEAD_STATES, MOVEMENT_WINDOW_S, STOPPED_STATES, Patient
from autopsy.collect.pyspy import Dumped, Dumper, Frame, Thread
from autopsy.errors import RingUnreadable
from autopsy.memfd import Kept
from autopsy.section import Payload, Skipped
from autopsy.source import blocks_around, is_own, loop_around

BLOCKING_LIMIT_S = 0.3
NONBLOCKING_LIMIT_S = 1.0
NATIVE_LIMIT_S = 0.5
NATIVE_ASKED_LIMIT_S = 2.0
# After the second look at /proc, which a dump would disturb.
SECOND_SAMPLE_S = MOVEMENT_WINDOW_S + 0.01
_MAX_FRAMES = 200
_INNER_FRAMES = 140
_SOURCE_LIMIT_S = 0.1
_SOURCE_BYTES = 1 << 20
_MAX_SOURCES = 100
# Per stack; what is further out says little about where it waits.
_OWN_FRAMES = 6
_MAX_BLOCKS = 8
_GREENLETS = re.compile(r"/(gevent|greenlet)/[^\n]*\.so")
# A wait in one of these becomes uninterruptible when ptrace touches it.
_FILE_SERVER_WAITS = ("request_wait_answer", "rpc_wait", "nfs_wait", "fuse_")


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment: when, how and from which threads; `reason` when there are no stacks."""

    at_ms: float
    method: str
    dumped: Dumped


def collector(dumper: Dumper, kept: Kept) -> Callable[[Patient], Payload]:
    """Return the collector that dumps with this py-spy.

    Shapes: `stacks` = distinct stacks, each a list of frames, innermost first; `samples` = at_ms,
    method, reason, threads (tid, name, owns_gil, active, stack = index into `stacks`); `notes` =
    which stacks cannot be seen; `native_asked` = whether native calls of all threads were wanted.
    """

    def collect(patient: Patient) -> Payload:
        first = sample(patient, dumper, kept)
        samples = [first]
        if first.dumped.threads or dumper.native:
            patient.wait_until(SECOND_SAMPLE_S)
            # A sample takes its time: keep two moments apart even when the first was slow.
            clock.sleep(first.at_ms / 1000 + MOVEMENT_WINDOW_S - patient.elapsed_ms() / 1000)
            second = sample(patient, dumper, kept)
            samples.append(second)
            if _is_busy_in_one_place(first.dumped, second.dumped):
                # Twice: one long call is in C code again, a loop of short ones often is not.
                samples += [_native_sample(patient, dumper) for _ in range(2)]
            elif dumper.native:
                samples.append(_native_sample(patient, dumper))
        if not any(one.dumped.threads for one in samples):
            samples += _noted(patient, kept, first.dumped.reason)
        if not any(one.dumped.threads for one in samples):
            raise Skipped(samples[-1].dumped.reason)
        return {**_as_payload(patient, samples), "native_asked": dumper.native}

    return collect


def sample(patient: Patient, dumper: Dumper, kept: Kept | None) -> Sample:
    """Take the stacks once, by the first method that gives any."""
    states = patient.thread_states()
    living = [tid for tid, state in states.items() if state not in DEAD_STATES]
    at_ms = patient.elapsed_ms()
    if not living:
        return Sample(at_ms, "none", Dumped(reason="the process has ended: it has no stacks"))
    tid = patient.pid if patient.pid in living else living[0]
    reasons = []
    if _may_block(patient, states):
        dumped = dumper.dump(patient, tid, BLOCKING_LIMIT_S)
        if dumped.threads:
            return Sample(at_ms, "py-spy", dumped)
        reasons.append(dumped.reason)
    dumped = dumper.dump(patient, tid, NONBLOCKING_LIMIT_S, "--nonblocking")
    if dumped.threads:
        return Sample(at_ms, "py-spy --nonblocking", dumped)
    reasons.append(dumped.reason)
    if dumper.closed:  # somebody else touches it now: read only
        kept = None
    return _without_py_spy(patient, states, kept, at_ms, reasons)


def _without_py_spy(
    patient: Patient, states: dict[int, str], kept: Kept | None, at_ms: float, reasons: list[str]
) -> Sample:
    def asked() -> Dumped:
        if kept is None:
            return Dumped(reason="no signal is sent any more")
        if _is_still(patient, states):
            return Dumped(reason="a stopped process answers no signal")
        return faultdump.dump(patient, kept.dump, clock.mono() + NONBLOCKING_LIMIT_S)

    def read() -> Dumped:
        return memorystack.dump(patient)

    ways = [("memory", read), ("faulthandler", asked)]
    # What moves is read exactly only by itself.
    for method, dump in reversed(ways) if "R" in states.values() else ways:
        dumped = dump()
        if dumped.threads:
            return Sample(at_ms, method, Dumped(dumped.threads, reasons[0]))
        reasons.append(dumped.reason)
    return Sample(at_ms, "none", Dumped(reason="; ".join(dict.fromkeys(reasons))))


def _noted(patient: Patient, kept: Kept, reason: str) -> list[Sample]:
    """Return the two newest samples of a living patient's own ring, which stand in for ours."""
    try:
        is_dead = DEAD_STATES.issuperset(patient.thread_states().values())
        moments = [] if is_dead else history.read(patient, kept).moments
    except (Skipped, RingUnreadable):
        return []
    return [
        Sample(
            round((moment.facts.mono - patient.opened_mono) * 1000, 1),
            "ring",
            Dumped(
                tuple(
                    Thread(tid, name, False, False, tuple(Frame(*call) for call in stack))
                    for (_, tid, name), stack in moment.stacks.items()
                    if tid and stack
                ),
                f"{reason}; the process noted these stacks of itself",
            ),
        )
        for moment in moments[-2:]
    ]


def _may_block(patient: Patient, states: dict[int, str]) -> bool:
    return "R" in states.values() and _may_stop(patient, states)


def _may_stop(patient: Patient, states: dict[int, str]) -> bool:
    if _is_still(patient, states) or procfs.tracer(patient.pid):
        return False  # only one program can stop it
    return not any(
        (procfs.read_text(f"/proc/{patient.pid}/task/{tid}/wchan") or "").startswith(
            _FILE_SERVER_WAITS
        )
        for tid in states
    )


def _is_still(patient: Patient, states: dict[int, str]) -> bool:
    """Stopped, traced, uninterruptible or frozen: a signal gets no answer, a ptrace stop hangs."""
    return bool(STOPPED_STATES.union("D") & set(states.values())) or cgroup.is_frozen(patient.pid)


def _is_busy_in_one_place(first: Dumped, second: Dumped) -> bool:
    """The case two Python stacks cannot decide: a one-line loop, or one endless C call."""
    before = {thread.tid: thread for thread in first.threads}
    return any(
        thread.owns_gil
        and (same := before.get(thread.tid)) is not None
        and same.owns_gil
        and same.frames[:1] == thread.frames[:1]
        for thread in second.threads
    )


def _native_sample(patient: Patient, dumper: Dumper) -> Sample:
    """Where nobody asked for it, only of what is on the CPU: it stops the process for longer."""
    states = patient.thread_states()
    at_ms = patient.elapsed_ms()
    living = [tid for tid, state in states.items() if state not in DEAD_STATES]
    if not living or not _may_stop(patient, states):
        return Sample(at_ms, "none", Dumped(reason="native calls: it cannot be stopped for that"))
    if not dumper.native and "R" not in states.values():
        return Sample(at_ms, "none", Dumped(reason="not on the CPU any more"))
    tid = patient.pid if patient.pid in living else living[0]
    limit_s = NATIVE_ASKED_LIMIT_S if dumper.native else NATIVE_LIMIT_S
    return Sample(at_ms, "py-spy --native", dumper.dump(patient, tid, limit_s, "--native"))


def _as_payload(patient: Patient, samples: list[Sample]) -> Payload:
    table: dict[tuple[Frame, ...], int] = {}
    listed = [
        {
            "at_ms": one.at_ms,
            "method": one.method,
            "reason": one.dumped.reason,
            "threads": [_thread_entry(thread, table) for thread in one.dumped.threads],
        }
        for one in samples
    ]
    sources = _sources(patient.pid, _worth_reading(table))
    return {
        "samples": listed,
        "stacks": [[_frame_entry(frame, sources) for frame in frames] for frames in table],
        "notes": _notes(patient.pid),
    }


def _notes(pid: int) -> list[str]:
    """Say which stacks nobody can see from outside."""
    found = _GREENLETS.search(procfs.maps(pid))
    if found is None:
        return []
    what = "greenlets may exist, and those that do not run are not visible from outside"
    return [f"{found[1]} is loaded: {what}"]


def _worth_reading(table: Iterable[tuple[Frame, ...]]) -> list[Frame]:
    """The innermost call of each stack, then the calls of the program's own code."""
    innermost = dict.fromkeys(frames[0] for frames in table if frames)
    own = dict.fromkeys(
        frame
        for frames in table
        for frame in [one for one in frames if not one.native and is_own(one.file)][:_OWN_FRAMES]
    )
    return list(innermost | own)[:_MAX_SOURCES]


def _thread_entry(thread: Thread, table: dict[tuple[Frame, ...], int]) -> Payload:
    frames = thread.frames
    if len(frames) > _MAX_FRAMES:
        left_out = Frame(f"... {len(frames) - _MAX_FRAMES} calls left out ...", "", 0)
        outer = frames[len(frames) - (_MAX_FRAMES - _INNER_FRAMES) :]
        frames = (*frames[:_INNER_FRAMES], left_out, *outer)
    return {
        "tid": thread.tid,
        "name": thread.name,
        "owns_gil": thread.owns_gil,
        "active": thread.active,
        "stack": table.setdefault(frames, len(table)),
    }


def _frame_entry(frame: Frame, sources: dict[Frame, tuple[str, list[str], str]]) -> Payload:
    entry: Payload = {"function": frame.function, "file": frame.file, "line": frame.line}
    if frame.native:
        entry["native"] = True
    line, inside, loop = sources.get(frame, ("", [], ""))
    if line:
        entry["source"] = line
    if inside:
        entry["inside"] = inside
    if loop:
        entry["loop"] = loop
    return entry


def _sources(pid: int, frames: list[Frame]) -> dict[Frame, tuple[str, list[str], str]]:
    """Read the source lines and the blocks around them; a dead disk costs its limit, no more."""
    found: dict[Frame, tuple[str, list[str], str]] = {}

    def read() -> None:
        files: dict[str, list[str]] = {}
        for frame in frames:
            if frame.file not in files:
                files[frame.file] = _source_of(pid, frame.file)
            lines = files[frame.file]
            if 0 < frame.line <= len(lines):
                own = is_own(frame.file)
                around = blocks_around(lines, frame.line)[:_MAX_BLOCKS] if own else []
                loop = loop_around(lines, frame.line)[:200] if own else ""
                found[frame] = lines[frame.line - 1].strip()[:200], around, loop

    reader = threading.Thread(target=read, name="autopsy-source", daemon=True)
    reader.start()
    reader.join(_SOURCE_LIMIT_S)
    return dict(found)


def _source_of(pid: int, file: str) -> list[str]:
    if not file.startswith("/") or not file.endswith(".py"):
        return []
    # Through the patient's root: in another container its path means another file here.
    path = f"/proc/{pid}/root{os.path.normpath(file)}"
    text = procfs.read_as_process(pid, path, _SOURCE_BYTES)
    return (text or "").splitlines()
