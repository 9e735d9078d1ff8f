"""One capture from pid to bundle, within a budget.

Secret: the order of the steps and how the budget is divided. Invariant: whatever the collectors
do, a bundle with what was seen is written before the budget ends. Library callers must know that
a hanging collector leaves a daemon thread behind; the command line leaves by os._exit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from autopsy import VERSION, clock, report, secret
from autopsy.bundle import MAX_BYTES, Heading, cleaned, write_bundle
from autopsy.collect.database.asking import Asking
from autopsy.errors import AutopsyError, BundleNotWritten
from autopsy.memfd import Kept
from autopsy.secret import Secrets
from autopsy.section import Payload, Section, Status

if TYPE_CHECKING:
    from autopsy.collect.runner import Collector
    from autopsy.examine import Examined, Registry

Render = Callable[[Heading, Sequence[Section]], str]

COMPLETE, PARTIAL = "complete", "partial"
# For diagnosis, redaction, reports, compression and fsync, out of the budget: measured 20 to 80 ms
# for a few threads, and 0.4 ms more for each, on a host that is as busy as ours mostly is.
_WRITING_S = 0.25
_WRITING_PER_THREAD_S = 0.0005
# The page is left out when less is left: it can be made of the bundle later.
_PAGE_S = 0.15
# Every living process has these; the others may have nothing to show.
_ALWAYS_THERE = frozenset({"stacks", "fds", "sockets"})


@dataclass(frozen=True, slots=True)
class Order:
    """What to capture: the process, where to, how long, and what the caller already knows.

    `out` None writes nothing. `facts` are stored as they are after redaction; `facts["why"]` is
    quoted in the report. `py_spy` None means the one beside this interpreter. `before_kill`: an
    examination by somebody else gives way, instead of being waited for. `end_statements`: the
    process is killed next; it is stopped, and its sessions in PostgreSQL are ended. `native`: take
    native calls too, which stops the process for longer. `memory_over_bytes`: count the heap of one
    that has more resident memory; None means the default.
    `secrets` are values to remove wherever they appear.
    """

    pid: int
    start_ticks: int | None = None
    out: Path | None = None
    budget_s: float = 10.0
    facts: Payload = field(default_factory=dict)
    py_spy: str | None = None
    facts_only: bool = False
    kept: Kept = field(default_factory=Kept)
    before_kill: bool = False
    asking: Asking = field(default_factory=Asking)
    end_statements: bool = False
    native: bool = False
    memory_over_bytes: int | None = None
    secrets: tuple[str, ...] = ()
    max_bytes: int = MAX_BYTES


@dataclass(frozen=True, slots=True)
class Captured:
    """What came of an order; `size_bytes` is 0 when nothing was written, `ms` is all of it."""

    heading: Heading
    sections: tuple[Section, ...]
    report: str
    size_bytes: int
    ms: float

    @property
    def status(self) -> str:
        """complete, or partial when something that should be there is not."""
        return self.heading.status

    def page(self) -> str:
        """Return the report as an HTML page."""
        return _made(report.render_html, self.heading, self.sections)


def capture(order: Order, registry: Registry | None = None) -> Captured:
    """Examine a process and write its bundle; `registry` None means every collector.

    Raises NoSuchPatient, PatientReplaced, AlreadyExamined, BundleNotWritten.
    """
    started = clock.mono()
    examined = None if order.facts_only else _examined(order, registry, started)
    remark = {"remark": examined.remark} if examined and examined.remark else {}
    facts = Section("facts", Status.OK, payload={**order.facts, **remark})
    seen = (facts, *(examined.sections if examined else _without_looking(order, started)))
    secrets = _secrets(order, examined)
    heading = _heading(order, examined, seen, clock.ms_since(started), secrets)
    sections = tuple(cleaned(section, secrets.tree, secrets.text) for section in seen)
    text = secrets.text(_made(report.render_text, heading, sections))
    size = 0
    if order.out:
        in_time = clock.mono() - started < order.budget_s - _PAGE_S
        page = _made(report.render_html, heading, sections) if in_time else ""
        try:
            size = write_bundle(
                order.out, heading, sections, text, page, order.max_bytes, is_clean=True
            )
        except BundleNotWritten as exc:
            exc.report = text  # a full disk need not cost the answer
            raise
    return Captured(heading, sections, text, size, clock.ms_since(started))


def _examined(order: Order, registry: Registry | None, started_mono: float) -> Examined:
    # Loaded here: a bundle of last resort must be written before this would even be imported.
    from autopsy.collect import runner
    from autopsy.collect.pyspy import Dumper
    from autopsy.examine import examine

    writing_s = _WRITING_S + _WRITING_PER_THREAD_S * _count_threads(order.pid)
    deadline = started_mono + max(order.budget_s - writing_s, order.budget_s / 2)
    dumper = Dumper(order.py_spy, native=order.native)
    chosen = registry or partial(
        runner.registry, asking=order.asking, memory_over_bytes=order.memory_over_bytes
    )
    return examine(
        order.pid,
        order.start_ticks,
        deadline,
        dumper,
        order.kept,
        chosen,
        before_kill=order.before_kill,
        facts=order.facts,
        last=_ending(order),
    )


def _count_threads(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0


def _ending(order: Order) -> tuple[Collector, ...]:
    """Return the step that comes after all evidence is taken, if one is ordered."""
    if not order.end_statements:
        return ()
    from autopsy.collect.database import ending
    from autopsy.collect.runner import Collector

    return (Collector("terminated", ending.collector(order.asking), ending.TIME_BOX_S),)


def _without_looking(order: Order, started_mono: float) -> list[Section]:
    found = _left_behind(order.kept)
    if order.end_statements:
        from autopsy.collect import runner  # statements of the dead matter more than the time
        from autopsy.collect.patient import gone, open_patient

        deadline = started_mono + order.budget_s / 2
        try:
            with open_patient(order.pid, order.start_ticks) as patient:
                found += runner.run(patient, _ending(order), deadline)
        except AutopsyError:  # it died by itself: what it has on the servers is known by name alone
            found += runner.run(gone(order.pid), _ending(order), deadline)
    return found


def _left_behind(kept: Kept) -> list[Section]:
    if kept == Kept(output_start=kept.output_start, begun_at=kept.begun_at):
        return []
    from autopsy.collect.remains import kept_sections  # as above: not paid for by facts alone

    return kept_sections(kept)


def _secrets(order: Order, examined: Examined | None) -> Secrets:
    """Return what must not be shown: as told, as found, and as we were started with ourselves.

    Of a process that has died our own environment is all there is: its parent's is often ours.
    """
    own = secret.in_environment("\0".join("=".join(one) for one in os.environ.items()))
    asked = secret.in_arguments(order.asking.addresses)
    return Secrets([*order.secrets, *(examined.secrets if examined else ()), *own, *asked])


def _heading(
    order: Order,
    examined: Examined | None,
    sections: Sequence[Section],
    duration_ms: float,
    secrets: Secrets,
) -> Heading:
    found = examined.diagnosis if examined else ()
    return Heading(
        pid=order.pid,
        start_ticks=examined.start_ticks if examined else order.start_ticks or 0,
        why=secrets.text(str(order.facts.get("why", ""))),
        host=os.uname().nodename,
        python=sys.version.split()[0],
        captured_at=clock.now().isoformat(timespec="milliseconds"),
        budget_s=order.budget_s,
        duration_ms=duration_ms,
        status=_status(order, sections),
        tools={"autopsy": VERSION, **(examined.tools if examined else {})},
        diagnosis=tuple(
            replace(one, evidence=tuple(map(secrets.text, one.evidence))) for one in found
        ),
        is_python=examined.is_python if examined else None,
    )


def _made(render: Render, heading: Heading, sections: Sequence[Section]) -> str:
    try:
        return render(heading, sections)
    except Exception as exc:  # an odd payload must not cost the evidence
        return f"The report could not be made ({type(exc).__name__}: {exc}); see the sections.\n"


def _status(order: Order, sections: Sequence[Section]) -> str:
    """Partial: something that should be there is not. A skipped section has nothing to show."""
    if order.facts_only:
        return PARTIAL
    return PARTIAL if any(_is_missing(section) for section in sections) else COMPLETE


def _is_missing(section: Section) -> bool:
    if section.status is Status.SKIPPED:
        return section.name in _ALWAYS_THERE
    return section.status is not Status.OK
