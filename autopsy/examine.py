"""Looking at the patient: run the collectors, then the rules. Apart from `capture` because a
bundle of last resort must not pay for loading any of this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from autopsy import clock, redact
from autopsy.cause import Code, Diagnosis, hit
from autopsy.collect import harvest, runner
from autopsy.collect.patient import open_patient
from autopsy.collect.pyspy import Dumper
from autopsy.diagnose import diagnose, runs_python
from autopsy.exclusive import Visit, sole_examiner
from autopsy.memfd import Kept
from autopsy.section import Payload, Section

# For what comes last, when another collector has used up the rest of the budget.
_LAST_S = 0.8

_SECRETS = runner.Collector(harvest.NAME, harvest.collect, 1.0)

Registry = Callable[[Dumper, Kept], Sequence[runner.Collector]]


@dataclass(frozen=True, slots=True)
class Examined:
    """What the collectors saw and what the rules make of it; `remark` on the circumstances.

    `secrets` are values that must not be shown or written.
    """

    start_ticks: int
    sections: tuple[Section, ...]
    diagnosis: tuple[Diagnosis, ...]
    tools: dict[str, str]
    is_python: bool | None
    remark: str = ""
    secrets: tuple[str, ...] = ()


def examine(
    pid: int,
    start_ticks: int | None,
    deadline_mono: float,
    dumper: Dumper,
    kept: Kept,
    registry: Registry = runner.registry,
    *,
    before_kill: bool = False,
    last: Sequence[runner.Collector] = (),
    facts: Payload | None = None,
) -> Examined:
    """Run all collectors of a registry on a process until the deadline, and diagnose.

    `facts` are what the caller knows already; the rules read them too.
    `last` come when all others are done, or have left them no more time.
    Raises NoSuchPatient, PatientReplaced, AlreadyExamined.
    """
    kept_back = min(_LAST_S, max(0.0, deadline_mono - clock.mono()) / 4) if last else 0.0
    with open_patient(pid, start_ticks, deadline_mono - kept_back) as patient:
        visit = Visit(pid, patient.start_ticks, deadline_mono, before_kill)
        gave_way = partial(dumper.stop_all, "it gave way to the examination before a kill")
        with sole_examiner(visit, gave_way) as remark:
            try:
                chosen = (*registry(dumper, kept), _SECRETS)
                *sections, harvested = runner.run(patient, chosen, patient.deadline_mono)
            finally:
                dumper.stop_all()
            sections += runner.run(patient, last, deadline_mono) if last else []
    secrets = tuple(harvested.payload.get("values", ()))
    tools = {"py-spy": dumper.version()}
    payloads = {"facts": facts or {}, **{one.name: one.payload for one in sections}}
    found = _diagnosed(payloads)
    is_python = runs_python(payloads)
    return Examined(patient.start_ticks, tuple(sections), found, tools, is_python, remark, secrets)


def _diagnosed(payloads: Mapping[str, Payload]) -> tuple[Diagnosis, ...]:
    try:
        found = diagnose(payloads)
    except Exception as exc:  # a broken rule must not cost the evidence
        found = [hit(Code.UNKNOWN, 0.0, f"the rules failed: {type(exc).__name__}: {exc}")]
    return tuple(
        Diagnosis(one.code, one.confidence, tuple(redact.text(line) for line in one.evidence))
        for one in found
    )
