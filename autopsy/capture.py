"""One capture from pid to bundle, within a budget.

Secret: the order of the steps and how the budget is divided. Invariant: whatever the collectors
do, a bundle with what was seen is written before the budget ends. Library callers must know that
a hanging collector leaves a daemon thread behind; the command line leaves by os._exit.
"""

from __future__ import annotations

import platform
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autopsy import VERSION, clock, redact, report
from autopsy.bundle import Heading, write_bundle
from autopsy.collect import runner
from autopsy.collect.patient import open_patient
from autopsy.collect.pyspy import Dumper
from autopsy.collect.record import Kept
from autopsy.diagnose import Diagnosis, diagnose
from autopsy.section import Payload, Section, Status

COMPLETE, PARTIAL, FAILED = "complete", "partial", "failed"
# For diagnosis, compression and fsync, out of the budget; measured 10 to 40 ms.
_WRITING_S = 0.25


@dataclass(frozen=True, slots=True)
class Order:
    """What to capture: the process, where to, how long, and what the caller already knows.

    `out` None writes nothing. `facts` are stored as they are after redaction; `facts["why"]` is
    quoted in the report. `py_spy` None means the one beside this interpreter.
    """

    pid: int
    start_ticks: int | None = None
    out: Path | None = None
    budget_s: float = 10.0
    facts: Payload = field(default_factory=dict)
    py_spy: str | None = None
    facts_only: bool = False
    kept: Kept = field(default_factory=Kept)


@dataclass(frozen=True, slots=True)
class Captured:
    """What came of an order; `size_bytes` is 0 when nothing was written."""

    heading: Heading
    sections: tuple[Section, ...]
    report: str
    size_bytes: int

    @property
    def status(self) -> str:
        return self.heading.status


Registry = Callable[[Dumper, Kept], Sequence[runner.Collector]]


def capture(order: Order, registry: Registry = runner.registry) -> Captured:
    """Examine a process and write its bundle.

    Raises NoSuchPatient, PatientReplaced, BundleNotWritten.
    """
    started = clock.mono()
    sections = [Section("facts", Status.OK, payload=order.facts)]
    start_ticks = order.start_ticks or 0
    if not order.facts_only:
        with open_patient(order.pid, order.start_ticks) as patient:
            start_ticks = patient.start_ticks
            dumper = Dumper(order.py_spy)
            deadline = started + max(order.budget_s - _WRITING_S, order.budget_s / 2)
            try:
                sections += runner.run(patient, registry(dumper, order.kept), deadline)
            finally:
                dumper.stop_all()
    return _finished(order, start_ticks, sections, started)


def _finished(
    order: Order, start_ticks: int, sections: list[Section], started_mono: float
) -> Captured:
    diagnosis: list[Diagnosis] = []
    if not order.facts_only:
        diagnosis = diagnose({section.name: section.payload for section in sections})
        diagnosis = [_redacted(one) for one in diagnosis]
    heading = Heading(
        pid=order.pid,
        start_ticks=start_ticks,
        why=redact.text(str(order.facts.get("why", ""))),
        host=socket.gethostname(),
        python=platform.python_version(),
        captured_at=clock.now().isoformat(timespec="milliseconds"),
        budget_s=order.budget_s,
        duration_ms=round((clock.mono() - started_mono) * 1000, 1),
        status=_status(order, sections),
        tools={"autopsy": VERSION, "interpreter": sys.executable},
        diagnosis=tuple(diagnosis),
    )
    text = redact.text(report.render(heading, sections))
    size = write_bundle(order.out, heading, sections, text) if order.out else 0
    return Captured(heading, tuple(sections), text, size)


def _redacted(one: Diagnosis) -> Diagnosis:
    evidence = tuple(redact.text(line) for line in one.evidence)
    return Diagnosis(one.code, one.confidence, evidence)


def _status(order: Order, sections: list[Section]) -> str:
    """Partial: something that should be there is not. A skipped section has nothing to show."""
    if order.facts_only:
        return PARTIAL
    missing = {
        section.name for section in sections if section.status in (Status.TIMEOUT, Status.ERROR)
    }
    no_stacks = any(one.name == "stacks" and one.status is Status.SKIPPED for one in sections)
    return PARTIAL if missing or no_stacks else COMPLETE
