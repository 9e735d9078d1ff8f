"""The facts that a supervisor handed over with an order, as lines of the report.

Secret: which facts are known here and how each reads. A fact that is missing, or of another shape,
is left out: the report must not depend on who asked for it. Called by `report`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autopsy.section import Payload

_LOOKS_SHOWN = 10
_MIB = 2**20
_LIMITS = (
    ("timeout_s", "timeout {:g} s"),
    ("soft_timeout_s", "soft timeout {:g} s"),
    ("cancel_grace_s", "cancel grace {:g} s"),
)


def told(facts: Payload) -> list[str]:
    """Return the lines of the facts, titled; none when there is nothing known to tell."""
    lines = [*_who(facts), *_limits(facts), *_wish(facts), *_end(facts), *_looks(facts)]
    title = "What the supervisor knew"
    return ["", title, "-" * len(title), *lines] if lines else []


def _who(facts: Payload) -> Iterator[str]:
    if facts.get("task_id"):
        parts = [f"task {facts['task_id']} attempt {facts.get('attempt', '?')}"]
        named = (("type", "type"), ("queue", "queue"), ("submitted_by", "submitted by"))
        parts += [f"{name} {facts[key]}" for key, name in named if facts.get(key)]
        yield ", ".join(parts)
    if facts.get("worker_id"):
        yield f"worker {facts['worker_id']} (pid {facts.get('pid')}), node {facts.get('node_id')}"


def _limits(facts: Payload) -> Iterator[str]:
    limits = _mapping(facts.get("limits"))
    parts = [text.format(limits[key]) for key, text in _LIMITS if _is_number(limits.get(key))]
    if limits.get("memory_limit_bytes"):
        parts.append(f"memory {_size(limits['memory_limit_bytes'])}")
    if parts:
        yield f"limits: {', '.join(parts)}"


def _wish(facts: Payload) -> Iterator[str]:
    wish = _mapping(facts.get("stop_wish"))
    if wish:
        yield f"asked to stop: {wish.get('kind')} by {wish.get('by')}: {wish.get('reason')}"
    if facts.get("remark"):
        yield f"remark: {facts['remark']}"


def _end(facts: Payload) -> Iterator[str]:
    progress = _mapping(facts.get("progress"))
    if _is_number(progress.get("done")):
        total = progress.get("total")
        of = f" of {total:g}" if _is_number(total) else ""
        yield f"progress {progress['done']:g}{of} when last seen"
    if facts.get("max_rss_bytes"):
        yield f"most memory used: {_size(facts['max_rss_bytes'])}"
    for key, name in (("exit", "exit"), ("exit_detail", "exit, more exactly")):
        if facts.get(key):
            yield f"{name}: {facts[key]}"
    if facts.get("last_words"):
        yield "what the interpreter wrote last:"
        yield from (f"  {line}" for line in str(facts["last_words"]).splitlines())


def _looks(facts: Payload) -> Iterator[str]:
    listed = facts.get("looks")
    looks = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    if not looks:
        return
    yield f"what the probes had seen ({len(looks)} looks, the last ones here, newest last):"
    for one in looks[-_LOOKS_SHOWN:]:
        cpu, progress = one.get("cpu_s", "?"), ""
        if one.get("progress_changes"):
            progress = f", progress {one.get('progress_done')}"
        yield (
            f"  at {one.get('age_s')} s: state {one.get('proc_state')}, CPU {cpu} s, "
            f"memory {_size(one.get('rss_bytes'))}, {one.get('beats')} heartbeats{progress}"
        )


def _size(value: Any) -> str:
    return f"{value / _MIB:.1f} MiB" if _is_number(value) else "?"


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
