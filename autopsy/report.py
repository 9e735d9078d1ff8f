"""The report a person reads first: the verdict, its evidence, then what was seen.

Secret: the layout. Pure: sections in, text out; nothing here collects or decides.
"""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from autopsy.bundle import Heading, SectionEntry
from autopsy.cause import meaning
from autopsy.section import Payload, Section, Status
from autopsy.told import told

_MAX_THREADS = 60
_MAX_ROWS = 100
_WIDTH = 110


def render(heading: Heading, sections: Sequence[Section]) -> str:
    """Return the whole report as text."""
    by_name = {section.name: section.payload for section in sections}
    parts = [
        _verdict(heading, by_name.get("process") or {}),
        told(by_name.get("facts") or {}),
        _process(by_name.get("process") or {}),
        _stacks(by_name.get("stacks") or {}),
        _logs(by_name.get("logs") or {}),
        _output(by_name.get("output") or {}, by_name.get("logs") or {}),
        _sockets(by_name.get("sockets") or {}),
        _descriptors(by_name.get("fds") or {}),
        _children(by_name.get("children") or {}),
        _statuses(sections),
    ]
    lines = [line for part in parts for line in part]
    return "\n".join(lines) + "\n"


def as_sections(entries: Sequence[SectionEntry], payloads: dict[str, Payload]) -> list[Section]:
    """Return the sections of a bundle read back, for rendering them again."""
    return [
        Section(entry.name, entry.status, entry.reason, entry.ms, payloads[entry.name])
        for entry in entries
    ]


def _title(text: str) -> list[str]:
    return ["", text, "-" * len(text)]


def _verdict(heading: Heading, process: Payload) -> Iterator[str]:
    best = heading.diagnosis[0] if heading.diagnosis else None
    name = f"{best.code} ({best.confidence:.0%} sure)" if best else "not diagnosed"
    if heading.is_python is False:
        name = f"not a Python process; {name}"
    elif heading.is_python is None and process.get("hidden"):
        name = f"hidden from us, perhaps not a Python process; {name}"
    yield f"Autopsy of process {heading.pid}: {name}"
    yield f"{heading.captured_at} on {heading.host}, {heading.duration_ms:.0f} ms, {heading.status}"
    if heading.why:
        yield f"Why it was looked at: {heading.why}"
    for one in heading.diagnosis:
        yield ""
        yield f"{one.code}  {one.confidence:.0%}"
        said = meaning(one.code)
        if said is not None:
            yield from textwrap.wrap(
                said.sentence, _WIDTH, initial_indent="  ", subsequent_indent="  "
            )
            yield from textwrap.wrap(
                f"What to do: {said.remedy}", _WIDTH, initial_indent="  ", subsequent_indent="    "
            )
        yield from (f"  {line}" for line in one.evidence)


def _process(payload: Payload) -> Iterator[str]:
    if not payload:
        return
    status = payload.get("status") or {}
    yield from _title("Process")
    yield " ".join(payload.get("command_line") or [payload.get("name", "")])[:500]
    state, rss, threads = (status.get(key, "?") for key in ("State", "VmRSS", "Threads"))
    yield f"state {state}, RSS {rss}, {threads} threads"
    for one in (payload.get("threads") or [])[:_MAX_THREADS]:
        if "tid" in one:
            waits = f"{one['syscall'] or 'user code'} (wchan {one['wchan']})"
            yield f"  thread {one['tid']} {one['name']}: {one['state']} in {waits}"


def _stacks(payload: Payload) -> Iterator[str]:
    samples = [one for one in payload.get("samples") or [] if one.get("threads")]
    if not samples:
        return
    stacks = payload["stacks"]
    sample = samples[min(1, len(samples) - 1)]
    yield from _title(
        f"Stacks at {sample['at_ms']:.0f} ms ({sample['method']}), innermost call first"
    )
    for thread in sample["threads"][:_MAX_THREADS]:
        if "tid" not in thread:
            continue
        gil = ", holds the GIL" if thread["owns_gil"] else ""
        yield f"Thread {thread['tid']} {thread['name']}{gil}"
        for frame in stacks[thread["stack"]] if thread["stack"] < len(stacks) else []:
            if "function" in frame:
                yield f"    {frame['function']}  {frame['file']}:{frame['line']}"
                if frame.get("source"):
                    yield f"        {frame['source']}"


def _logs(payload: Payload) -> Iterator[str]:
    records = payload.get("records") or []
    if not records:
        return
    count = len(records)
    yield from _title("The last log record" if count == 1 else f"The last {count} log records")
    for one in records:
        at = datetime.fromtimestamp(one["created"], UTC).isoformat(timespec="milliseconds")
        yield f"{at} {logging.getLevelName(one['level'])} {one['logger']}: {one['text']}"


def _output(payload: Payload, logs: Payload) -> Iterator[str]:
    lines = (payload.get("text") or "").splitlines()
    rest = _without_records(lines, logs.get("records") or [])
    if rest:
        but = "" if len(rest) == len(lines) else ", but for the log records above"
        yield from _title(f"End of its output{but}")
        yield from rest[-_MAX_ROWS:]


def _without_records(lines: Sequence[str], records: Sequence[Payload]) -> list[str]:
    """Leave out the lines that show a log record: it was written to the ring and the output."""
    unseen = [(one, one["text"].splitlines() or [""]) for one in records]
    rest, at = [], 0
    while at < len(lines):
        found = next((one for one in unseen if _shows(lines[at : at + len(one[1])], *one)), None)
        if found is None:
            rest.append(lines[at])
            at += 1
        else:
            unseen.remove(found)
            at += len(found[1])
    return rest


def _shows(lines: Sequence[str], record: Payload, text: Sequence[str]) -> bool:
    """Say whether lines are a record: its text, behind its level or logger."""
    if not lines[0].endswith(text[0]) or list(lines[1:]) != list(text[1:]):
        return False
    before = lines[0].removesuffix(text[0])
    return logging.getLevelName(record["level"]) in before or record["logger"] in before


def _sockets(payload: Payload) -> Iterator[str]:
    rows = [one for one in payload.get("sockets") or [] if "fd" in one]
    if not rows:
        return
    yield from _title(f"Sockets ({len(rows)})")
    for one in rows[:_MAX_ROWS]:
        ends = f"{one.get('local') or '-'} -> {one.get('peer') or '-'}"
        queues = f"in {one.get('receive_queue_bytes', 0)} out {one.get('send_queue_bytes', 0)}"
        yield f"  {one['fd']:>4} {one['kind']} {one['state']} {ends} {queues}"


def _descriptors(payload: Payload) -> Iterator[str]:
    rows = [one for one in payload.get("fds") or [] if "fd" in one]
    if not rows:
        return
    yield from _title(f"Descriptors ({payload['count']} of {payload['limit']})")
    yield from (f"  {one['fd']:>4} {one['target']}"[:_WIDTH] for one in rows[:_MAX_ROWS])


def _children(payload: Payload) -> Iterator[str]:
    rows = [one for one in payload.get("children") or [] if "pid" in one]
    if not rows:
        return
    yield from _title(f"Descendants ({len(rows)})")
    for one in rows[:_MAX_ROWS]:
        command = " ".join(one["command_line"]) or one["name"]
        line = f"{'  ' * one['depth']}{one['pid']} {one['state']} {one['wchan']} {command}"
        yield line[:_WIDTH]


def _statuses(sections: Sequence[Section]) -> Iterator[str]:
    yield from _title("Sections")
    for one in sections:
        why = "" if one.status is Status.OK else f"  {one.reason}"
        yield f"  {one.name:<12} {one.status:<8} {one.ms:>7.1f} ms{why}"
