"""What the patient noted of itself once a second: where each thread was, and how it grew.

Secret: how samples are put together again from what changed between them. Only the newest attempt
counts, and only if it is the one that is examined. The memory outlives the patient.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from autopsy import clock, memfd, stackring
from autopsy.collect.patient import Patient
from autopsy.collect.record import opened
from autopsy.errors import RingUnreadable
from autopsy.memfd import Kept
from autopsy.section import Payload, Skipped
from autopsy.stackring import Facts

#: Samples further apart than this have a gap between them: our thread did not get to run.
GAP_S = 2.5
_MAX_STACKS = 120
_NEWEST_STACKS = 30
_MAX_RUNS = 300
_MAX_THREADS = 100
_MAX_SHAPES = 20
_CUT = ("... further calls left out ...", "", 0)
_NO_RING = "the process has no stack ring (it does not run under a supervisor)"
_NO_SAMPLE = "no sample was taken of this attempt"

Call = tuple[str, str, int]
Stack = tuple[Call, ...]
Thread = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Moment:
    """One sample: the process as a whole, and the stack of each thread, innermost call first."""

    facts: Facts
    stacks: dict[Thread, Stack]


@dataclass(slots=True)
class History:
    """The samples of one attempt, oldest first; `shapes` are those of the newest tasks seen."""

    moments: list[Moment] = field(default_factory=list)
    seen: int = 0
    shapes: Counter[Stack] = field(default_factory=Counter)


def ring_collector(kept: Kept) -> Callable[[Patient], Payload]:
    """Return the collector of the stacks of the last minutes; see `as_stacks` for the shapes."""

    def collect(patient: Patient) -> Payload:
        return as_stacks(read(patient, kept), is_alive=patient.is_there())

    return collect


def tasks_collector(
    kept: Kept, inside: Callable[[Patient], Payload]
) -> Callable[[Patient], Payload]:
    """Return the collector of the asyncio tasks that asks `inside` first, and else the ring.

    Shapes of the latter: total, tasks (empty), shapes (count and stack), left_out, source ring,
    at_age_s.
    """

    def collect(patient: Patient) -> Payload:
        try:
            return inside(patient)
        except Skipped as exc:
            noted = _noted_tasks(patient, kept)
            if noted:
                return noted | {"instead_of": str(exc)}
            raise

    return collect


def read(patient: Patient, kept: Kept) -> History:
    """Return the history of this attempt. Raises Skipped when there is none."""
    fd = opened(patient, memfd.STACK_RING, kept.stack_ring)
    if fd is None:
        raise Skipped(_NO_RING)
    return history_in(fd, kept.begun_at)


def history_in(fd: int, begun_at: float = 0.0) -> History:
    """Return the history of the attempt that runs since then, and close the descriptor.

    Raises Skipped when it has none; RingUnreadable.
    """
    try:
        window_s = stackring.window_s(fd)
        history = _newest_attempt(stackring.fillings(fd))
    finally:
        os.close(fd)
    if not history.moments or history.moments[-1].facts.wall < begun_at:
        raise Skipped(_NO_SAMPLE)
    oldest = history.moments[-1].facts.mono - window_s
    history.moments = [one for one in history.moments if one.facts.mono >= oldest]
    return history


def as_stacks(history: History, *, is_alive: bool) -> Payload:
    """Return the section `ring`.

    Shapes: seconds and samples covered; `stacks`, each a list of frames, innermost first; threads
    (tid or None, ident, name, runs = [age_s of the first sample, index into `stacks` or None,
    samples]), those that are there still come first; tasks (total_now, seen, shapes = stack and
    count, series = [age_s, total]) or None; gaps ([age_s, length_s]: no sample could be taken).
    Ages are negative: seconds before now.
    """
    now = clock.mono()
    found = _runs(history.moments)
    threads = {thread: found[thread] for thread in _lasting(history.moments)}
    chosen = _chosen(threads)
    first, last = history.moments[0].facts, history.moments[-1].facts
    return {
        "seconds": round(last.mono - first.mono, 1),
        "samples": len(history.moments),
        "stacks": [_frames(stack) for stack in chosen],
        "threads": [
            {
                "tid": thread[1] or None,
                "ident": thread[0],
                "name": thread[2],
                "runs": [[_age(at, now), chosen.get(stack), count] for at, stack, count in spans],
            }
            for thread, spans in threads.items()
        ],
        "tasks": _tasks(history, now),
        "gaps": list(_gaps(history.moments, now if is_alive else last.mono, now)),
        "threads_left_out": len(found) - len(threads),
        "left_out": len({span[1] for spans in threads.values() for span in spans}) - len(chosen),
    }


def as_growth(history: History) -> Payload:
    """Return the section `growth`: points [age_s, rss_bytes, threads, fds or None] and baseline."""
    now = clock.mono()
    points = [
        [_age(one.mono, now), one.rss_bytes, one.threads, one.fds if one.fds >= 0 else None]
        for one in (moment.facts for moment in history.moments)
    ]
    first = points[0]
    names = ("at_age_s", "rss_bytes", "threads", "fds")
    return {"source": "ring", "points": points, "baseline": dict(zip(names, first, strict=True))}


def noted_growth(patient: Patient, kept: Kept) -> Payload:
    """Return what `as_growth` tells of this attempt; empty when nothing was noted of it."""
    try:
        return as_growth(read(patient, kept))
    except (Skipped, RingUnreadable):
        return {}


def _noted_tasks(patient: Patient, kept: Kept) -> Payload:
    try:
        history = read(patient, kept)
    except (Skipped, RingUnreadable):
        return {}
    now = clock.mono()
    seen = _tasks(history, now)
    if seen is None or not seen["total_now"]:
        return {}
    return {
        "source": "ring",
        "at_age_s": _age(history.moments[-1].facts.mono, now),
        "total": seen["total_now"],
        "tasks": [],
        "left_out": seen["total_now"],
        "shapes": seen["shapes"],
    }


def _newest_attempt(fillings: list[list[bytes]]) -> History:
    history = History()
    for entries in fillings:
        # What is told in the older half is not known in the newer one: that starts in full.
        for moment in _moments(entries, history):
            if history.moments and history.moments[-1].facts.attempt != moment.facts.attempt:
                history.moments.clear()
            history.moments.append(moment)
    return history


def _moments(entries: list[bytes], history: History) -> Iterator[Moment]:
    codes: list[tuple[str, str]] = []
    stacks: list[Stack] = []
    threads: list[Thread] = []
    current: dict[Thread, Stack] = {}
    history.seen, history.shapes = 0, Counter()
    for body in entries:
        match body[0]:
            case stackring.CODE:
                codes.append(stackring.unpack_code(body))
            case stackring.STACK:
                is_cut, calls = stackring.unpack_stack(body)
                told = tuple((*codes[code], line) for code, line in calls)
                stacks.append((*told, _CUT) if is_cut else told)
            case stackring.THREAD:
                threads.append(stackring.unpack_thread(body))
            case stackring.TASKS:
                history.seen, history.shapes = _shapes(body, stacks)
            case stackring.SAMPLE:
                facts, moved, left = stackring.unpack_sample(body)
                for thread, stack in moved:
                    current[threads[thread]] = stacks[stack] if stack < len(stacks) else ()
                for thread in left:
                    current.pop(threads[thread], None)
                yield Moment(facts, dict(current))


def _shapes(body: bytes, stacks: list[Stack]) -> tuple[int, Counter[Stack]]:
    seen, counts = stackring.unpack_tasks(body)
    found: Counter[Stack] = Counter()
    for number, count in counts:
        if number < len(stacks):
            found[stacks[number]] += count
    return seen, found


def _runs(moments: list[Moment]) -> dict[Thread, list[tuple[float, Stack, int]]]:
    """Return for each thread when it came to each stack and for how many samples it was there."""
    found: dict[Thread, list[tuple[float, Stack, int]]] = {}
    before: dict[Thread, Stack] = {}
    for moment in moments:
        for thread, stack in moment.stacks.items():
            spans = found.setdefault(thread, [])
            if spans and before.get(thread) == stack:
                at, _, count = spans[-1]
                spans[-1] = at, stack, count + 1
            else:
                spans.append((moment.facts.mono, stack, 1))
        before = moment.stacks
    return {thread: spans[-_MAX_RUNS:] for thread, spans in found.items()}


def _lasting(moments: list[Moment]) -> list[Thread]:
    """Return the threads worth telling: those that are there still, then those seen most often."""
    samples = Counter(thread for moment in moments for thread in moment.stacks)
    there = moments[-1].stacks
    return sorted(samples, key=lambda one: (one in there, samples[one]), reverse=True)[
        :_MAX_THREADS
    ]


def _chosen(threads: dict[Thread, list[tuple[float, Stack, int]]]) -> dict[Stack, int]:
    """Return the stacks worth telling: where threads were last, and where they were most."""
    spans = sorted((span for spans in threads.values() for span in spans), reverse=True)
    samples: Counter[Stack] = Counter()
    for _, stack, count in spans:
        samples[stack] += count
    newest = [stack for _, stack, _ in spans[:_NEWEST_STACKS]]
    ordered = dict.fromkeys([*newest, *(stack for stack, _ in samples.most_common(_MAX_STACKS))])
    return {stack: index for index, stack in enumerate(list(ordered)[:_MAX_STACKS])}


def _tasks(history: History, now: float) -> Payload | None:
    totals = [(one.facts.mono, one.facts.tasks) for one in history.moments]
    if max(total for _, total in totals) <= 0:
        return None
    return {
        "total_now": totals[-1][1],
        "seen": history.seen,
        "shapes": [
            {"count": count, "stack": _frames(stack)}
            for stack, count in history.shapes.most_common(_MAX_SHAPES)
        ],
        "series": [[_age(at, now), total] for at, total in totals],
    }


def _gaps(moments: list[Moment], end: float, now: float) -> Iterator[list[float]]:
    times = [moment.facts.mono for moment in moments]
    for begin, then in zip(times, [*times[1:], end], strict=True):
        if then - begin > GAP_S:
            yield [_age(begin, now), round(then - begin, 1)]


def _frames(stack: Stack) -> list[Payload]:
    return [{"function": function, "file": file, "line": line} for function, file, line in stack]


def _age(at: float, now: float) -> float:
    return round(at - now, 2)
