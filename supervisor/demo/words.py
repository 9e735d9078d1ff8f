"""The demo in words: how the tasks of a part stand, what happened to them, what an autopsy found.

Pure: a scene goes in, text comes out.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.text import Text

from supervisor.demo.cast import CAST, Part
from supervisor.demo.scene import Scene
from supervisor.demo.stage import Leftover
from supervisor.model.states import ENDED, State
from supervisor.store import AutopsyRecord
from supervisor.store.view import TaskLine

_FOLDERS = re.compile(r"(?<=\()/[^()]*/(?=[^/()]+:\d+\))")
#: Only what an attempt left behind or lost is worth a word; the rest is in `supervisor show`.
_USAGE = {
    "leaked_fds": "{} files it left open were counted",
    "killed_children": "the {} it left behind were ended",
    "leaked_threads": "{} threads left running",
}


def states(lines: Sequence[TaskLine]) -> Mapping[State, int]:
    """Count the states of some tasks, in the order of a life."""
    found = Counter(line.state for line in lines)
    return {state: found[state] for state in State if found[state]}


def tally(lines: Sequence[TaskLine]) -> str:
    """Say in which states some tasks are."""
    counts = states(lines)
    if len(lines) == 1:
        return str(next(iter(counts)))
    return ", ".join(f"{count} {state}" for state, count in counts.items()) or "-"


def happened(scene: Scene, lines: Sequence[TaskLine]) -> str:
    """Say what is most worth knowing about the tasks of one part."""
    running = [line for line in lines if line.state is State.RUNNING]
    if running:
        return _running(scene.at, running[0])
    waiting = [line for line in lines if line.state is State.PENDING]
    if waiting:
        return _waiting(scene.at, waiting[0])
    return _ended(scene, lines[0]) if lines else ""


def part_name(scene: Scene, autopsy: AutopsyRecord) -> str:
    """Return the name of the part whose task this autopsy is of."""
    for name, lines in scene.of_part.items():
        if any(line.task_id == autopsy.task_id for line in lines):
            return name
    return "worker"


def most_telling(scene: Scene) -> AutopsyRecord:
    """Return the autopsy to read first: of a part that wants one, a deadlock before all others."""
    wanted = {part.name: part.diagnoses for part in CAST if part.diagnoses}

    def rank(one: AutopsyRecord) -> tuple[bool, bool]:
        as_designed = one.diagnosis in wanted.get(part_name(scene, one), ())
        return not (one.diagnosis or "").startswith("deadlock."), not as_designed

    return min(scene.autopsies, key=rank)


def diagnosis(autopsy: AutopsyRecord) -> str:
    """Return the first diagnosis with its confidence."""
    causes = _causes(autopsy)
    if not causes:
        return autopsy.diagnosis or f"no diagnosis ({autopsy.status})"
    return f"{causes[0]['code']} ({causes[0]['confidence']:.0%} sure)"


def evidence(autopsy: AutopsyRecord) -> list[str]:
    """Return what the first diagnosis rests on, a line each."""
    causes = _causes(autopsy)
    return [str(line) for line in causes[0]["evidence"]] if causes else []


def details(autopsy: AutopsyRecord, most: int) -> list[str]:
    """Return the evidence a person wants first: what it does, then where in the code."""
    lines = evidence(autopsy)
    stacks = [line for line in lines[1:] if "stacks:" in line]
    stacks.sort(key=lambda line: "for a lock" not in line)  # who waits for locks says most
    return [_FOLDERS.sub("", line) for line in [*lines[:1], *stacks][:most]]


def totals(counts: Mapping[State, int]) -> str:
    """Count all tasks by their state."""
    by_state = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    return f"{sum(counts.values())} tasks: {by_state}"


def left_behind(leftovers: Sequence[Leftover], *, in_order: bool) -> Text:
    """Say how the node went and what outlived it."""
    if not in_order:
        return Text("the node did not stop in order", style="red")
    if not leftovers:
        return Text("the node stopped in order and left no process behind", style="green")
    found = "; ".join(f"{one.pid} {one.command}" for one in leftovers)
    return Text(f"left behind: {found}", style="red")


def surprises(scene: Scene) -> list[str]:
    """Say what did not end, or was not diagnosed, as the cast says it should."""
    return list(_surprises(scene))


def _surprises(scene: Scene) -> Iterator[str]:
    examined = _examined(scene)
    for part in CAST:
        lines = scene.of_part[part.name]
        live = sum(line.state not in ENDED for line in lines)
        if live:
            yield f"{part.name}: {live} of {part.tasks} had not ended"
        elif len(lines) != part.tasks:
            yield f"{part.name}: {len(lines)} tasks instead of {part.tasks}"
        for line in lines:
            if line.state in ENDED:
                yield from _oddities(part, line, examined.get(line.task_id))


def _oddities(part: Part, line: TaskLine, autopsy: AutopsyRecord | None) -> Iterator[str]:
    if line.state is not part.ends:
        yield f"{part.name}: {line.state} instead of {part.ends}"
    elif part.diagnoses and autopsy is None:
        yield f"{part.name}: no autopsy was taken"
    elif part.diagnoses and autopsy is not None and autopsy.diagnosis not in part.diagnoses:
        yield f"{part.name}: the autopsy says {autopsy.diagnosis}"


def _causes(autopsy: AutopsyRecord) -> list[dict[str, Any]]:
    causes: list[dict[str, Any]] = json.loads(autopsy.diagnosis_json or "[]")
    return causes


def _running(now: datetime, line: TaskLine) -> str:
    if line.started_at is None:
        return "assigned"
    text = f"runs for {_span(line.started_at, now)}"
    if line.attempt > 1:
        text += f", attempt {line.attempt}"
    if line.mark is not None:
        text += f", {line.mark.kind} requested"
    return text


def _waiting(now: datetime, line: TaskLine) -> str:
    wait_s = (line.run_after - now).total_seconds()
    if wait_s <= 0:
        back = f"back in the queue after attempt {line.attempt}"
        return back if line.attempt else "in the queue"
    return f"due in {wait_s:.1f} s" if line.attempt == 0 else f"runs again in {wait_s:.1f} s"


def _ended(scene: Scene, line: TaskLine) -> str:
    took = _span(line.started_at, line.ended_at)
    match line.state:
        case State.SUCCESS:
            return "; ".join((f"done in {took}", *_remarks(scene, line)))
        case State.FAILED:
            return f"{line.error_type}: {line.error}" if line.error_type else str(line.error)
        case State.TIMEOUT:
            return f"killed after {took}: {_cause(scene, line)}"
    asked = scene.cued.get(line.task_id)
    if line.task_id in _examined(scene):
        return f"killed {_span(asked, line.ended_at)} after the request: {_cause(scene, line)}"
    return f"left {_span(asked, line.ended_at)} after the request"


def _examined(scene: Scene) -> Mapping[str | None, AutopsyRecord]:
    return {one.task_id: one for one in scene.autopsies}


def _cause(scene: Scene, line: TaskLine) -> str:
    autopsy = _examined(scene).get(line.task_id)
    return line.reason if autopsy is None else autopsy.diagnosis or autopsy.status


def _remarks(scene: Scene, line: TaskLine) -> Iterator[str]:
    if line.crash_count:
        yield f"attempt {line.attempt}, the first crashed"
    elif line.attempt > 1:
        yield f"attempt {line.attempt}"
    usage = scene.usage.get(line.task_id, {})
    for name, text in _USAGE.items():
        if usage.get(name):
            yield text.format(int(usage[name]))


def _span(start: datetime | None, end: datetime | None) -> str:
    if start is None or end is None:
        return "?"
    seconds = (end - start).total_seconds()
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 else "under 1 ms"
