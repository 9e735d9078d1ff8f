"""What an autopsy found, told: in numbers, as events, and in the history of the attempt.

Secret kept here: the words for it. Called where an answer is heard, and where an examination is
left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from supervisor.node.floor import Floor
from supervisor.node.port import AutopsyNote, Captured, Note
from supervisor.telemetry.events import emit


def tell(floor: Floor, captured: Captured) -> None:
    """Tell of an autopsy that is over."""
    facts = captured.facts.values
    if captured.status == "busy":
        unexamined(floor, str(facts["task_id"]), int(facts["attempt"]), captured.why)
        return
    floor.metrics.inc("autopsies_total", status=captured.status)
    floor.metrics.observe("autopsy_duration_seconds", captured.ms / 1000)
    floor.scribe.ask(AutopsyNote(captured))
    about: dict[str, Any] = {"task_id": facts.get("task_id"), "attempt": facts.get("attempt")}
    about |= _ids(facts)
    if captured.status == "failed":
        emit("autopsy.failed", **about, error=captured.why)
    else:
        emit(
            "autopsy.taken",
            **about, autopsy_id=facts["name"], status=captured.status,
            diagnosis=headline(captured), duration_s=round(captured.ms / 1000, 3),
        )  # fmt: skip
    if "task_id" in facts:
        text = f"{captured.status}: {headline(captured)}"
        floor.scribe.ask(Note(facts["task_id"], facts["attempt"], "autopsy", text))
        if captured.sessions:
            _tell_sessions(floor, captured)


def unexamined(floor: Floor, task_id: str, attempt: int, why: str) -> None:
    """Tell that a suspect was not examined: it lives on, and a person may want to."""
    floor.metrics.inc("autopsies_total", status="busy")
    emit("autopsy.skipped", task_id=task_id, attempt=attempt, why=why)
    text = f"not examined: {why}; `supervisor autopsy capture {task_id}` does it"
    floor.scribe.ask(Note(task_id, attempt, "autopsy", text))


def _tell_sessions(floor: Floor, captured: Captured) -> None:
    """Tell which sessions in PostgreSQL were ended before the kill, and which could not be."""
    task_id, attempt = captured.facts.values["task_id"], captured.facts.values["attempt"]
    told = [_of_session(one) for one in captured.sessions]
    ended = sum(bool(one.get("ended")) for one in captured.sessions)
    floor.scribe.ask(Note(task_id, attempt, "sessions_ended", "; ".join(told)))
    emit(
        "sessions.ended",
        task_id=task_id, attempt=attempt, ended=ended, left=len(told) - ended, sessions=told,
        **_ids(captured.facts.values),
    )  # fmt: skip


def _ids(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return where in a trace the attempt is, as its events bear it."""
    return {name: facts[name] for name in ("trace_id", "span_id") if name in facts}


def _of_session(one: dict[str, Any]) -> str:
    who = f"PostgreSQL {one.get('server')}"
    if one.get("pid") is None:
        return f"{who}: its sessions could not be ended: {one.get('reason')}"
    who += f", process {one['pid']} ({one.get('state') or 'state unknown'}: {one.get('query')})"
    if not one.get("ended"):
        return f"{who}: not ended: {one.get('reason')}"
    return f"{who}: {one.get('reason') or 'ended'}"


def headline(captured: Captured) -> str:
    """Return the first cause that it names, or why it names none."""
    if captured.diagnosis:
        first = captured.diagnosis[0]
        return f"{first.get('code')} (confidence {first.get('confidence')})"
    return captured.why or "no diagnosis"
