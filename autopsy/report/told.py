"""What the process told by itself: its log records and what it printed, each thing once.

Secret: how a log record is found again in the output. Pure; called by `view`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from autopsy.report.part import Lines, Part
from autopsy.report.reading import number, rows, text
from autopsy.section import Payload

_MAX_OUTPUT = 200
# Each line is looked for in each record: of what is far more than a worker keeps, the end will do.
_MAX_LINES, _MAX_RECORDS = 1000, 100


def logs(payload: Payload) -> Part | None:
    """Return the last log records, oldest first."""
    records = rows(payload, "records", "text")[-10 * _MAX_RECORDS :]
    if not records:
        return None
    count = len(records)
    title = "The last log record" if count == 1 else f"The last {count} log records"
    lines = [line for one in records for line in _told(one).split("\n")]
    return Part("logs", title, (Lines(tuple(lines), code=True),))


def _told(record: Payload) -> str:
    level, logger = _level(record), text(record.get("logger"), "?")
    return f"{_time(record.get('created'))} {level} {logger}: {record['text']}"


def _time(created: object) -> str:
    try:
        at = datetime.fromtimestamp(number(created) or 0.0, UTC)
    except (ValueError, OverflowError, OSError):
        return f"({created})"
    return at.isoformat(timespec="milliseconds")


def _level(record: Payload) -> str:
    level = number(record.get("level"))
    return logging.getLevelName(int(level)) if level is not None else "?"


def output(payload: Payload, logs: Payload) -> Part | None:
    """Return the end of what it printed, but for what its log records say."""
    lines = text(payload.get("text")).splitlines()[-_MAX_LINES:]
    rest = _without_records(lines, rows(logs, "records", "text")[-_MAX_RECORDS:])
    if not rest:
        return None
    but = "" if len(rest) == len(lines) else ", but for the log records above"
    shown = tuple(rest[-_MAX_OUTPUT:])
    return Part("output", f"End of its output{but}", (Lines(shown, code=True),))


def _without_records(lines: Sequence[str], records: Sequence[Payload]) -> list[str]:
    """Leave out the lines that show a log record: it was written to the ring and the output."""
    unseen = [(one, text(one["text"]).splitlines() or [""]) for one in records]
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


def _shows(lines: Sequence[str], record: Payload, said: Sequence[str]) -> bool:
    """Say whether lines are a record: its text, behind its level or logger."""
    if not lines[0].endswith(said[0]) or list(lines[1:]) != list(said[1:]):
        return False
    before = lines[0].removesuffix(said[0])
    return _level(record) in before or text(record.get("logger"), "?") in before
