"""The stacks of a report: of threads at two moments, of tasks, and over the last minutes.

Secret: how two samples are compared. Stacks agree from the outside in; where they part, the call
that went on to another line has moved, and what it called since then is new. Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import takewhile

from autopsy.report.part import Block, Chart, Drawing, Lines, Part, Run, Stack, Step, Strips, Table
from autopsy.report.reading import (
    count,
    listing,
    mapping,
    missing,
    number,
    place,
    rows,
    span,
    text,
)
from autopsy.section import Payload
from autopsy.source import is_own

NEW, MOVED, GONE = "new", "moved", "gone"
# Named before they are counted.
_THREADS_NAMED = 3
_MAX_STACKS = 60
_MAX_TASKS = 30
_STRIPS = 12
_LEGEND = 8
_PLACES = 4
# Threads a supervisor runs beside the task: told last, what they wait for says nothing about it.
_OURS = ("supervisor-", "autopsy-")

Frames = Sequence[Payload]


def stacks(payload: Payload, process: Payload) -> Part | None:
    """Return the stacks of every thread at the second look, and what changed since the first.

    The main thread, which is the first of the process, is told first.
    """
    samples = [one for one in rows(payload, "samples", "threads") if one["threads"]]
    if not samples:
        return None
    table = listing(payload.get("stacks"))
    python = [one for one in samples if "native" not in text(one.get("method"))][:2]
    last = python[-1] if python else samples[0]
    before = _by_thread(python[0]) if len(python) == 2 else {}
    groups: dict[tuple[str, str], tuple[list[Payload], tuple[Step, ...]]] = {}
    kernel = {_tid(one): text(one.get("name")) for one in rows(process, "threads", "tid")}
    for thread in rows(last, "threads", "tid"):
        earlier = before.get(_tid(thread))
        # Two thousand threads have a few stacks: each pair of them is compared once.
        pair = text(thread.get("stack")), text(earlier and earlier.get("stack"))
        if pair not in groups:
            was = None if earlier is None else _stack_of(earlier, table)
            groups[pair] = ([], _compared(_stack_of(thread, table), was))
        name = text(thread.get("name")) or kernel.get(_tid(thread), "")
        groups[pair][0].append({**thread, "name": name})
    main = next(iter(kernel), "")
    ordered = sorted(
        groups.values(),
        key=lambda group: (_is_ours(group[0][0]), main not in map(_tid, group[0])),
    )
    notes = tuple(text(one) for one in listing(payload.get("notes")))
    blocks: list[Block] = [Lines(notes)] if notes else []
    blocks += [
        Stack(_named(threads), steps, _movement(steps, compared=bool(before)))
        for threads, steps in ordered[:_MAX_STACKS]
    ]
    if len(ordered) > _MAX_STACKS:
        left = sum(len(threads) for threads, _ in ordered[_MAX_STACKS:])
        blocks.append(Lines((f"{left} more threads are in the section stacks",)))
    blocks += _native(samples, table, asked=bool(payload.get("native_asked")))
    at = f"{number(last.get('at_ms')) or 0:.0f} ms ({text(last.get('method'), '?')})"
    return Part("stacks", f"Stacks at {at}, innermost call first", tuple(blocks))


def _compared(now: Frames, before: Frames | None) -> tuple[Step, ...]:
    """Return the calls of a stack, marked with what became of them since an earlier look."""
    if before is None:
        return tuple(_step(frame) for frame in now)
    pairs = zip(reversed(now), reversed(before), strict=False)
    same = len(list(takewhile(lambda pair: _key(pair[0]) == _key(pair[1]), pairs)))
    new, gone = now[: len(now) - same], list(before[: len(before) - same])
    steps = [_step(frame, NEW) for frame in new]
    if new and gone and _key(new[-1])[:2] == _key(gone[-1])[:2]:
        was = gone.pop().get("line")
        steps[-1] = _step(new[-1], f"{MOVED}, was in line {was}")
    steps += [_step(frame) for frame in now[len(now) - same :]]
    return (*(_step(frame, GONE) for frame in gone[:5]), *steps)


def _key(frame: Payload) -> tuple[object, object, object]:
    return frame.get("function"), frame.get("file"), frame.get("line")


def _step(frame: Payload, change: str = "") -> Step:
    file = text(frame.get("file"))
    where = f"{file}:{frame['line']}" if file and frame.get("line") else file
    own = bool(file) and not frame.get("native") and is_own(file)
    return Step(text(frame.get("function"), "?"), where, text(frame.get("source")), change, own=own)


def _movement(steps: Sequence[Step], *, compared: bool) -> str:
    if not compared or not steps:
        return ""
    changed = [step for step in steps if step.change and step.change != GONE]
    if not any(step.change for step in steps):
        return "the same in both looks"
    return f"{len(changed) or 'some'} of its calls changed between the two looks"


def _stack_of(thread: Payload, table: Sequence[object]) -> list[Payload]:
    index = thread.get("stack")
    if not isinstance(index, int) or not 0 <= index < len(table):
        return []
    return [one for one in map(mapping, listing(table[index])) if "function" in one]


def _by_thread(sample: Payload) -> dict[str, Payload]:
    return {_tid(one): one for one in rows(sample, "threads", "tid")}


def _tid(thread: Payload) -> str:
    return text(thread.get("tid"))


def _is_ours(thread: Payload) -> bool:
    return text(thread.get("name")).startswith(_OURS)


def _named(threads: Sequence[Payload]) -> str:
    names = [
        f"{one['tid']} {text(one.get('name'))}".rstrip()
        + (", holds the GIL" if one.get("owns_gil") else "")
        for one in threads[:_THREADS_NAMED]
    ]
    if len(threads) == 1:
        return f"Thread {names[0]}"
    more = f" and {len(threads) - len(names)} more" if len(threads) > len(names) else ""
    return f"{len(threads)} threads: {', '.join(names)}{more}"


def _native(samples: Sequence[Payload], table: Sequence[object], *, asked: bool) -> Iterator[Block]:
    """Yield the native calls of the thread that was busy, or of all if somebody asked for them."""
    found = [one for one in samples if "native" in text(one.get("method"))]
    for sample in found[-1:]:
        for thread in rows(sample, "threads", "tid")[:_MAX_STACKS]:
            steps = tuple(_step(frame) for frame in _stack_of(thread, table))
            if asked or thread.get("owns_gil") or thread.get("active"):
                yield Stack(f"{_named([thread])}, with native calls", steps)


def motion(payload: Payload) -> Part | None:
    """Return where the threads that move were in a series of quick looks."""
    body = tuple(
        (
            text(one["tid"]),
            str(count(one.get("looks"))),
            str(count(one.get("stacks"))),
            "; ".join(
                f"{place(where)} ({text(where.get('looks'), '?')})"
                for where in rows(one, "places", "function")[:_PLACES]
            ),
        )
        for one in rows(payload, "threads", "tid")[:_MAX_STACKS]
        if count(one.get("stacks")) > 1 or count(one.get("instructions")) > 1
    )
    if not body:
        return None
    head = ("thread", "looks", "different stacks", "the program's own lines (and in how many)")
    table = Table(head, body, numbers=frozenset({0, 1, 2}))
    return Part("motion", "Threads that move, in quick looks", (table,))


def tasks(payload: Payload) -> Part | None:
    """Return what the asyncio tasks await, the most common stacks first when there are many."""
    total = count(payload.get("total"))
    if not total:
        return None
    counts = (("loops", "event loop"), ("timers", "timer"), ("watched_fds", "watched socket"))
    told = [
        f"{payload[key]} {name}{'' if payload[key] == 1 else 's'}"
        for key, name in counts
        if number(payload.get(key))
    ]
    many = "task" if total == 1 else "tasks"
    blocks: list[Block] = [Lines((f"{total} {many}, {', '.join(told)}".rstrip(", "),))]
    blocks += [
        Stack(f"{shape['count']} tasks with the same stack", _steps(shape["stack"]))
        for shape in rows(payload, "shapes", "count", "stack")[:5]
        if count(shape["count"]) > 1
    ]
    listed = rows(payload, "tasks", "id")
    blocks += [
        Stack(f"Task {text(task.get('name'), '?')}", _steps(task.get("stack")), _state(task))
        for task in listed[:_MAX_TASKS]
    ]
    left = len(listed) - _MAX_TASKS + missing(payload, "tasks")
    if left > 0:
        blocks.append(Lines((f"{left} more tasks are not shown",)))
    return Part("asyncio", f"Tasks of asyncio ({total})", tuple(blocks))


def _steps(stack: object) -> tuple[Step, ...]:
    return tuple(_step(frame) for frame in listing(stack) if "function" in mapping(frame))


def _state(task: Payload) -> str:
    parts = [text(task.get("state"))]
    if task.get("awaits"):
        parts.append(f"awaits {task['awaits']}")
    holds = [text(mapping(one).get("name"), "a lock") for one in listing(task.get("holds"))]
    if holds:
        parts.append(f"holds {', '.join(holds)}")
    if task.get("woken_by"):
        waker = text(task["woken_by"])
        parts.append("nothing due to wake it" if waker == "nobody" else f"woken by {waker}")
    return ", ".join(part for part in parts if part)


def ring(payload: Payload) -> Part | None:
    """Return what each thread did over the last minutes: a strip each, and the same in words."""
    table = listing(payload.get("stacks"))
    seconds, samples = number(payload.get("seconds")), count(payload.get("samples"))
    threads = [
        (_thread_label(one), _runs(one, seconds / samples))
        for one in rows(payload, "threads", "runs")
        if seconds and samples
    ]
    if not threads or seconds is None:
        return None
    time_in = _time_in([run for _, found in threads for run in found])
    # The stack of a run that is not known any more is -1: always the last in order.
    order = [index for index, _ in time_in.most_common() if index >= 0]
    ranks = {index: rank for rank, index in enumerate(order)} | {-1: len(order) + _LEGEND}
    threads.sort(key=lambda one: (one[0].startswith(_OURS), -len(one[1])))
    strips = tuple(
        (label, tuple(Run(run.since_s, run.until_s, ranks[run.stack]) for run in found))
        for label, found in threads[:_STRIPS]
    )
    longest = max((run.since_s for _, found in threads for run in found), default=0.0)
    names = tuple(_innermost(table, index) for index in order[:_LEGEND])
    said = tuple(_in_words(label, found, table, order) for label, found in strips)
    span_s = max(seconds, longest, 1.0)
    blocks: list[Block] = [Drawing(Strips(span_s, strips, names, _gaps(payload)), said)]
    if len(threads) > _STRIPS:
        blocks.append(Lines((f"{len(threads) - _STRIPS} more threads are in the section ring",)))
    blocks += [
        Stack(
            f"{rank + 1}. for {span(time_in[index] / 1000)} in all, all threads together",
            _steps(table[index]),
            page_only=True,
        )
        for rank, index in enumerate(order[:_LEGEND])
        if isinstance(index, int) and 0 <= index < len(table)
    ]
    blocks += _task_counts(mapping(payload.get("tasks")))
    title = f"The last {span(seconds)} ({samples} samples)"
    return Part("ring", title, tuple(blocks))


def _time_in(runs: Sequence[Run]) -> Counter[int]:
    """Return for how many milliseconds all threads together had each stack."""
    found: Counter[int] = Counter()
    for run in runs:
        found[run.stack] += max(1, round((run.since_s - run.until_s) * 1000))
    return found


def _gaps(payload: Payload) -> tuple[Run, ...]:
    return tuple(
        Run(abs(gap[0]), max(0.0, abs(gap[0]) - gap[1]), 0)
        for gap in listing(payload.get("gaps"))
        if isinstance(gap, list) and len(gap) == 2 and None not in map(number, gap)
    )


def _task_counts(tasks: Payload) -> Iterator[Block]:
    """Yield how many tasks asyncio had over the time: a leak of them is a line that climbs."""
    points = tuple(
        (abs(one[0]), one[1])
        for one in listing(tasks.get("series"))
        if isinstance(one, list) and len(one) == 2 and None not in map(number, one)
    )
    counts = [total for _, total in points]
    if len(points) > 1 and min(counts) != max(counts):
        chart = Chart("asyncio tasks", points, f"{min(counts):.0f}", f"{max(counts):.0f}")
        yield Drawing(chart, (f"asyncio tasks: {counts[0]:.0f} -> {counts[-1]:.0f}",))


def _thread_label(thread: Payload) -> str:
    return f"{text(thread.get('name'), 'thread')} ({text(thread.get('tid'), '?')})"


def _runs(thread: Payload, every_s: float) -> list[Run]:
    """A run lasts until the next begins, but no longer than it has samples."""
    found = [
        run
        for run in listing(thread["runs"])
        if isinstance(run, list) and len(run) == 3 and number(run[0]) is not None
    ]
    begins = [abs(run[0]) for run in found]
    ends = [*begins[1:], 0.0][: len(begins)]
    return [
        Run(
            begin,
            max(end, begin - (count(run[2]) + 0.5) * every_s, 0.0),
            run[1] if isinstance(run[1], int) else -1,
        )
        for run, begin, end in zip(found, begins, ends, strict=True)
    ]


def _innermost(table: Sequence[object], index: int) -> str:
    frames = listing(table[index]) if 0 <= index < len(table) else []
    own = next((one for one in frames if is_own(text(mapping(one).get("file"), "<frozen "))), None)
    told = place(frames[0]) if frames else "no Python call"
    return f"{place(own)}, there in {told}" if own and own is not frames[0] else told


def _in_words(label: str, runs: Sequence[Run], table: Sequence[object], order: list[int]) -> str:
    if not runs:
        return f"{label}: no sample"
    last = runs[-1]
    spent: dict[int, float] = defaultdict(float)
    for run in runs:
        spent[run.stack] += run.since_s - run.until_s
    known = last.stack < len(order)
    where = _innermost(table, order[last.stack]) if known else "another stack"
    if len(spent) == 1:
        return f"{label}: in one place for {span(last.since_s)}: {where}"
    return f"{label}: {len(runs)} moves; for the last {span(last.since_s)} in {where}"
