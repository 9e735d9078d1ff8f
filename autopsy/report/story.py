"""The facts that a supervisor handed over with an order, as a part of the report.

Secret: which facts are known here and how each reads. A fact that is missing, or of another shape,
is left out: the report must not depend on who asked for it. Called by `view`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autopsy.report.part import Block, Lines, Part, Table
from autopsy.report.reading import figure, mapping, number, rows, size, text
from autopsy.section import Payload

_LOOKS_SHOWN = 10
_LIMITS = (
    ("timeout_s", "timeout {:g} s"),
    ("soft_timeout_s", "soft timeout {:g} s"),
    ("cancel_grace_s", "cancel grace {:g} s"),
)


def story(facts: Payload) -> Part | None:
    """Return what the supervisor knew; None when there is nothing known to tell."""
    lines = (*_who(facts), *_limits(facts), *_wish(facts), *_calls(facts), *_end(facts))
    blocks: list[Block] = [Lines(lines)] if lines else []
    blocks += _words(facts)
    blocks += _looks(facts)
    return Part("facts", "What the supervisor knew", tuple(blocks)) if blocks else None


def _who(facts: Payload) -> Iterator[str]:
    if facts.get("task_id"):
        parts = [f"task {facts['task_id']} attempt {facts.get('attempt', '?')}"]
        named = (("type", "type"), ("queue", "queue"), ("submitted_by", "submitted by"))
        parts += [f"{name} {facts[key]}" for key, name in named if facts.get(key)]
        yield ", ".join(parts)
    if facts.get("worker_id"):
        yield f"worker {facts['worker_id']} (pid {facts.get('pid')}), node {facts.get('node_id')}"
    if facts.get("trace_id"):
        yield f"trace {facts['trace_id']}, span {facts.get('span_id')}"


def _limits(facts: Payload) -> Iterator[str]:
    limits = mapping(facts.get("limits"))
    parts = [said.format(limits[key]) for key, said in _LIMITS if number(limits.get(key))]
    if number(limits.get("memory_limit_bytes")):
        parts.append(f"memory {size(limits['memory_limit_bytes'])}")
    if parts:
        yield f"limits: {', '.join(parts)}"


def _wish(facts: Payload) -> Iterator[str]:
    wish = mapping(facts.get("stop_wish"))
    if wish:
        yield f"asked to stop: {wish.get('kind')} by {wish.get('by')}: {wish.get('reason')}"
    if facts.get("remark"):
        yield f"remark: {facts['remark']}"


def _calls(facts: Payload) -> Iterator[str]:
    for call in rows(facts, "calls"):
        waited, many = number(call.get("for_s")), number(call.get("number")) or 1
        if waited is not None:
            of = f" ({many:.0f} calls, the oldest)" if many > 1 else ""
            yield f"in ctx.call({text(call.get('service'), '?')!r}) for {waited:.1f} s{of}"


def _end(facts: Payload) -> Iterator[str]:
    progress = mapping(facts.get("progress"))
    done, total = number(progress.get("done")), number(progress.get("total"))
    if done is not None:
        of = f" of {figure(total)}" if total is not None else ""
        yield f"progress {figure(done)}{of} when last seen"
    if number(facts.get("max_rss_bytes")):
        yield f"most memory used: {size(facts['max_rss_bytes'])}"
    for key, name in (("exit", "exit"), ("exit_detail", "exit, more exactly")):
        if facts.get(key):
            yield f"{name}: {facts[key]}"


def _words(facts: Payload) -> Iterator[Block]:
    if facts.get("last_words"):
        yield Lines(("what the interpreter wrote last:",))
        yield Lines(tuple(str(facts["last_words"]).splitlines()), code=True)


def _looks(facts: Payload) -> Iterator[Block]:
    looks = rows(facts, "looks")
    if not looks:
        return
    shown = looks[-_LOOKS_SHOWN:]
    count = f"{len(looks)} looks, the last {len(shown)} here, newest last"
    yield Lines((f"what the probes had seen ({count}):",))
    head = ("at s", "state", "CPU s", "memory", "heartbeats", "progress")
    yield Table(head, tuple(_look(one) for one in shown), numbers=frozenset({0, 2, 3, 4, 5}))


def _look(one: dict[str, Any]) -> tuple[str, ...]:
    return (
        f"{age:.1f}" if (age := number(one.get("age_s"))) is not None else "?",
        text(one.get("proc_state"), "?"),
        f"{cpu:.2f}" if (cpu := number(one.get("cpu_s"))) is not None else "?",
        size(one.get("rss_bytes")),
        text(one.get("beats"), "?"),
        text(one.get("progress_done")) if one.get("progress_changes") else "",
    )
