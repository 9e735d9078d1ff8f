"""Running the collectors, each within its time box, all within one deadline.

Secret: abandonment. A collector that hangs in the kernel cannot be ended, so each runs in a daemon
thread that is left behind; the process that captures leaves by os._exit. The first look at /proc
comes before anything that could disturb it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from autopsy import clock
from autopsy.collect import (
    access,
    connection,
    descriptor,
    filelock,
    growth,
    heap,
    history,
    host,
    interior,
    memory,
    process,
    record,
    stacks,
    tree,
)
from autopsy.collect.database import collecting
from autopsy.collect.database.asking import Asking
from autopsy.collect.holder import Holders
from autopsy.collect.patient import Patient
from autopsy.collect.pyspy import Dumper
from autopsy.memfd import Kept
from autopsy.section import Payload, Section, Skipped, Status

FIRST_LOOK = "process"


@dataclass(frozen=True, slots=True)
class Collector:
    """A named way to look at a patient and how many seconds it may take."""

    name: str
    function: Callable[[Patient], Payload]
    time_box_s: float


@dataclass(slots=True)
class _Run:
    """One collector at work; `section` is set once, by its thread."""

    collector: Collector
    started_mono: float
    done: threading.Event = field(default_factory=threading.Event)
    section: Section | None = None


def registry(
    dumper: Dumper,
    kept: Kept,
    asking: Asking | None = None,
    memory_over_bytes: int | None = None,
) -> tuple[Collector, ...]:
    """Return every collector, in the order of the report; the first runs alone."""
    holders, inside = Holders(), interior.Interior()
    return (
        Collector(FIRST_LOOK, process.collect, 1.0),
        Collector("movement", process.collect_movement, 2.0),
        Collector("access", access.collect, 1.0),
        Collector("stacks", stacks.collector(dumper, kept), 5.0),
        Collector("motion", inside.motion, interior.TIME_BOX_S),
        Collector("thread_locks", inside.thread_locks, interior.TIME_BOX_S),
        Collector("asyncio", history.tasks_collector(kept, inside.tasks), interior.TIME_BOX_S),
        Collector("fds", descriptor.collector(holders), 1.0),
        Collector("sockets", connection.collector(holders), 1.0),
        Collector("children", tree.collect, 2.0),
        Collector("locks", filelock.collect, 1.0),
        Collector(
            "databases", collecting.collector(holders, asking or Asking()), collecting.TIME_BOX_S
        ),
        Collector("host", host.collect, 2.0),
        Collector("memory", memory.collect, 1.0),
        Collector("growth", growth.collector(kept), 2.0),
        Collector("heap", heap.collector(memory_over_bytes), heap.TIME_BOX_S),
        Collector("ring", history.ring_collector(kept), 2.0),
        Collector("logs", record.logs_collector(kept), 1.0),
        Collector("output", record.output_collector(kept), 1.0),
    )


def run(patient: Patient, collectors: Sequence[Collector], deadline_mono: float) -> list[Section]:
    """Run the collectors and return one section for each, in order, by the deadline."""
    first, others = collectors[:1], collectors[1:]
    sections = [_wait(_start(one, patient), deadline_mono) for one in first]
    runs = [_start(one, patient) for one in others]
    return sections + [_wait(one, deadline_mono) for one in runs]


def _start(collector: Collector, patient: Patient) -> _Run:
    run = _Run(collector, clock.mono())
    name = f"autopsy-{collector.name}"
    threading.Thread(target=_collect, args=(run, patient), name=name, daemon=True).start()
    return run


def _collect(run: _Run, patient: Patient) -> None:
    collector = run.collector
    status, reason, payload = Status.OK, "", Payload()
    try:
        payload = collector.function(patient)
    except Skipped as exc:
        status, reason = Status.SKIPPED, str(exc)
    except Exception as exc:  # one broken collector must not cost the others
        status, reason = Status.ERROR, f"{type(exc).__name__}: {exc}"
    run.section = Section(collector.name, status, reason, clock.ms_since(run.started_mono), payload)
    run.done.set()


def _wait(run: _Run, deadline_mono: float) -> Section:
    own_end = run.started_mono + run.collector.time_box_s
    run.done.wait(max(0.0, min(own_end, deadline_mono) - clock.mono()))
    if run.section is not None:
        return run.section
    ms = clock.ms_since(run.started_mono)
    what = "time box" if own_end <= deadline_mono else "budget of the whole capture"
    return Section(run.collector.name, Status.TIMEOUT, f"no answer after {ms} ms ({what})", ms)
