"""What a term of a query means for a row: conditions over a task and its latest attempt.

Invariants: both stores answer alike (names are compared as they are, free text without regard to
the case of A to Z); what is missing fulfils no term, so the negated term holds. No store knows the
pattern of an error: a sieve tests it on rows that were read. Only what looks for tasks uses it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from autopsy import redact
from supervisor.model.bound import number_of, span_of, when_of
from supervisor.model.pattern import pattern_of
from supervisor.model.query import QUALIFIERS, TEXT, Kind, Term, pieces
from supervisor.store.schema import attempts, tasks

_COLUMNS: dict[str, sa.Column[Any]] = {
    "state": tasks.c.state,
    "type": tasks.c.type,
    "queue": tasks.c.queue,
    "priority": tasks.c.priority,
    "by": tasks.c.submitted_by,
    "reason": tasks.c.reason,
    "submitted": tasks.c.created_at,
    "due": tasks.c.run_after,
    "ended": tasks.c.ended_at,
    "attempts": tasks.c.attempt,
    "retries": tasks.c.retry_count,
    "key": tasks.c.dedup_key,
    "parent": tasks.c.parent_id,
    "verdict": attempts.c.verdict,
    "error": attempts.c.error_type,
    "message": attempts.c.error,
    "node": attempts.c.node_id,
    "claimed": attempts.c.claimed_at,
}
_OF_ATTEMPT = frozenset({"verdict", "error", "message", "pattern", "node", "claimed", "ran"})
#: As much of an error as its pattern is made of, and more.
ERROR_HEAD: Any = sa.func.substr(attempts.c.error, 1, 200)
_FOLD = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_GLOB = str.maketrans({"[": "[[]", "?": "[?]", "*": "[*]"})
_LIKE = str.maketrans({"\\": "\\\\", "%": "\\%", "_": "\\_"})

Condition = sa.ColumnElement[bool]
#: Says of the head of an error whether its row is meant.
Sieve = Callable[[str | None], bool]


@dataclass(frozen=True, slots=True)
class Criteria:
    """Conditions for one kind of database at one moment."""

    is_file: bool
    now: datetime

    def of(self, terms: Sequence[Term]) -> list[Condition]:
        """Return the condition of each term but those of a sieve."""
        return [self._term(term) for term in terms if not _is_sieved(term)]

    def _term(self, term: Term) -> Condition:
        met = sa.or_(*(self._value(term.name, value) for value in term.values))
        return sa.not_(sa.func.coalesce(met, sa.false())) if term.negated else met

    def _value(self, name: str, value: str) -> Condition:
        match name:
            case _ if name == TEXT:
                return self._text(value)
            case "tag":
                return self._tag(value)
            case "quarantined":
                return tasks.c.quarantined.is_(sa.true() if value == "yes" else sa.false())
            case "ran":
                return self._ran(value)
        return self._column(name, _COLUMNS[name], value)

    def _column(self, name: str, column: sa.Column[Any], value: str) -> Condition:
        match QUALIFIERS[name].kind:
            case Kind.MOMENT:
                return self._moment(column, value)
            case Kind.NUMBER:
                found = number_of(value)
                assert found is not None
                return _within(column, found.low, found.high)
            case Kind.PATTERN:
                return self._pattern(column, value)
            case Kind.PART:
                parts = pieces(value)
                is_part = len(parts) == 1
                return self._holds(column, parts[0]) if is_part else self._pattern(column, value)
        return column.is_not(None) if value == "*" else column == value

    def _moment(self, column: sa.Column[Any], value: str) -> Condition:
        bound = when_of(value)
        assert bound is not None
        between = bound(self.now)
        met: list[Condition] = [column.is_not(None)]
        met += [] if between.low is None else [column >= between.low]
        met += [] if between.high is None else [column < between.high]
        return sa.and_(*met)

    def _ran(self, value: str) -> Condition:
        """Compare how long the latest attempt ran; one that runs still has run until now."""
        bound = span_of(value)
        assert bound is not None
        column = attempts.c
        until = sa.func.coalesce(column.ended_at, sa.literal(self.now, column.ended_at.type))
        if self.is_file:
            number = sa.BigInteger()
            span = sa.type_coerce(until, number) - sa.type_coerce(column.started_at, number)
            return _within(span, bound.low, bound.high)
        low, high = (
            None if end is None else sa.literal(timedelta(microseconds=end), sa.Interval())
            for end in (bound.low, bound.high)
        )
        at = sa.DateTime(timezone=True)
        return _within(sa.type_coerce(until, at) - sa.type_coerce(column.started_at, at), low, high)

    def _pattern(self, column: sa.Column[Any], pattern: str) -> Condition:
        parts = pieces(pattern)
        if len(parts) == 1:
            return column == parts[0]
        if not any(parts):
            return column.is_not(None)
        if self.is_file:
            glob = "*".join(part.translate(_GLOB) for part in parts)
            return column.op("GLOB", is_comparison=True)(glob)
        return column.like("%".join(part.translate(_LIKE) for part in parts), escape="\\")

    def _holds(self, where: Any, part: str) -> Condition:
        find = sa.func.instr if self.is_file else sa.func.strpos
        return find(where, part) > 0

    def _tag(self, value: str) -> Condition:
        if value == "*":
            return tasks.c.tags.is_not(None)
        return self._holds(tasks.c.tags, json.dumps(value, ensure_ascii=False))

    def _text(self, text: str) -> Condition:
        """Look for a text in names, and for the beginning or the end of an id."""
        wanted = text.translate(_FOLD)
        column = tasks.c
        folded = [self._folded(where) for where in (column.type, column.dedup_key,
                                                    column.submitted_by)]  # fmt: skip
        return sa.or_(
            column.task_id.startswith(wanted, autoescape=True),
            column.task_id.startswith(f"task_{wanted}", autoescape=True),
            column.task_id.endswith(wanted, autoescape=True),
            *(sa.func.coalesce(self._holds(where, wanted), sa.false()) for where in folded),
        )

    def _folded(self, column: sa.Column[Any]) -> Any:
        return sa.func.lower(column if self.is_file else column.collate("C"))


def needs_attempt(terms: Sequence[Term]) -> bool:
    """Say whether a row of the latest attempt is needed to test these."""
    return any(term.name in _OF_ATTEMPT for term in terms)


def pattern_of_head(head: str | None) -> str:
    """Return what an error has in common with others, and nothing secret of it; '' for none."""
    return pattern_of(redact.text(head or ""))


def sieve_of(terms: Sequence[Term]) -> Sieve | None:
    """Return what is left to test once the conditions hold; None for nothing."""
    sieved = [term for term in terms if _is_sieved(term)]
    if not sieved:
        return None
    pattern = functools.cache(pattern_of_head)  # of one page: many errors are the same
    return lambda head: all((pattern(head) in term.values) is not term.negated for term in sieved)


def _is_sieved(term: Term) -> bool:
    return term.name == "pattern"


def _within(value: Any, low: Any, high: Any) -> Condition:
    met = [] if low is None else [value >= low]
    met += [] if high is None else [value <= high]
    return sa.and_(*met)
