"""What must be true of a store after any disaster, as a list of violations.

Secret kept here: what "nothing lost, nothing twice" means. It reads rows and the files in which the
tasks wrote down their executions (programs/tasks_storm.py), never the product's own reader, so
that it holds for any node that dies, at any point. The storm, the soak and the crash points use it;
test_invariants.py shows that each line of it can object.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from autopsy.bundle import read_bundle
from autopsy.errors import AutopsyError
from supervisor.model.states import CRASH_REASONS, ENDED, State, is_legal

#: (state, reason) that a task may end with.
Ends = frozenset[tuple[str, str]]
#: Runs one query: SQL that both SQLite and PostgreSQL read.
Query = Callable[[str], list[tuple[Any, ...]]]

#: How an attempt may have ended without its own report; only then may its task run again unasked.
INTERRUPTED = {
    *CRASH_REASONS, "node_lost", "preempted", "shutdown", "timeout", "soft_timeout",
    "heartbeat_lost",
}  # fmt: skip
CHILD_ENDS: Ends = frozenset({("SUCCESS", "returned")})


class Row(NamedTuple):
    """A task as it is stored."""

    state: str
    reason: str
    attempt: int
    parent_id: str | None


class Move(NamedTuple):
    """One audited move of a task."""

    before: str | None
    after: str
    operator: str
    reason: str
    attempt: int | None


@dataclass(frozen=True)
class Account:
    """All that was submitted, and what is on record of it."""

    query: Query
    #: Every task that was answered for, with the ends it may have; children are not among them.
    expected: Mapping[str, Ends]
    runs: Path
    #: How many nodes may run.
    nodes: int = 1

    def violations(self) -> list[str]:
        """Say everything that should not be so."""
        rows, trails = self._rows(), trails_of(self.query)
        return [
            *self._lost(rows, trails),
            *self._illegal(rows, trails),
            *self._ended_twice(rows, trails),
            *self._run_twice(rows, trails),
            *overlaps(self.runs),
            *self._ended_wrongly(rows),
            *self._loose_ends(),
        ]

    def _rows(self) -> dict[str, Row]:
        return {
            task_id: Row(*row)
            for task_id, *row in self.query(
                "SELECT task_id, state, reason, attempt, parent_id FROM tasks"
            )
        }

    def _lost(self, rows: Mapping[str, Row], trails: Mapping[str, Sequence[Move]]) -> Iterator[str]:
        for task_id in self.expected.keys() - rows.keys():
            yield f"lost: {task_id} was submitted and is not stored"
        for task_id in rows.keys() - self.expected.keys():
            if rows[task_id].parent_id not in rows:
                yield f"lost: {task_id} is stored and nobody submitted it"
        for task_id in trails.keys() ^ rows.keys():
            yield f"lost: {task_id} has no audit trail or no row"
        for task_id, row in rows.items():
            if row.state not in ENDED:
                yield f"lost: {task_id} reads {row.state}"

    def _illegal(
        self, rows: Mapping[str, Row], trails: Mapping[str, Sequence[Move]]
    ) -> Iterator[str]:
        """Every move is in the transition table, and the row reads where they lead."""
        for task_id, moves in trails.items():
            if wrong := _illegal_move(moves):
                yield f"illegal: {task_id}: {wrong}"
            elif task_id in rows and (moves[-1].after, moves[-1].reason) != rows[task_id][:2]:
                yield f"illegal: {task_id} reads {rows[task_id]}, audited {moves}"

    def _ended_twice(
        self, rows: Mapping[str, Row], trails: Mapping[str, Sequence[Move]]
    ) -> Iterator[str]:
        """Each attempt was claimed once and ended once, audited as it is stored, without a gap."""
        stored = {
            (task_id, attempt): [(outcome, reason)]
            for task_id, attempt, outcome, reason in self.query(
                "SELECT task_id, attempt, outcome, reason FROM attempts"
            )
        }
        ended: dict[tuple[str, int | None], list[tuple[str, str]]] = defaultdict(list)
        claimed: Counter[tuple[str, int | None]] = Counter()
        for task_id, move in _each(trails):
            if move.before == State.RUNNING:
                ended[task_id, move.attempt].append((move.after, move.reason))
            elif move.after == State.RUNNING:
                claimed[task_id, move.attempt] += 1
        for key in stored.keys() | ended.keys() | claimed.keys():
            if not _same_endings(stored.get(key), ended.get(key)) or claimed[key] != 1:
                yield (
                    f"endings of {key}: claimed {claimed[key]} times,"
                    f" stored {stored.get(key)}, audited {ended.get(key)}"
                )
        numbers = Counter(task_id for task_id, _ in stored)
        for task_id, row in rows.items():
            if numbers[task_id] != row.attempt:
                yield f"attempts of {task_id}: {numbers[task_id]} stored, the task says {row}"

    def _run_twice(
        self, rows: Mapping[str, Row], trails: Mapping[str, Sequence[Move]]
    ) -> Iterator[str]:
        """Each attempt ran once at most; another run comes only after an ending that says why."""
        why = {
            (task_id, move.attempt): move.reason
            for task_id, move in _each(trails)
            if move.before == State.RUNNING
        }
        ran = executions(self.runs)
        for task_id, numbers in ran.items():
            for number, times in Counter(numbers).items():
                if times > 1:
                    yield f"twice: {task_id} attempt {number} ran {times} times"
                if why.get((task_id, number), "never_started") == "never_started":
                    yield f"twice: {task_id} attempt {number} ran, and no audit line says so"
            for number in numbers[:-1]:
                if why.get((task_id, number)) not in INTERRUPTED | {"raised"}:
                    yield f"twice: {task_id} ran again after {why.get((task_id, number))}"
        for task_id, row in rows.items():
            if row.reason == "returned" and ran.get(task_id, [0])[-1] != row.attempt:
                yield f"lost: {task_id} reads {row}, but ran as {ran.get(task_id)}"

    def _ended_wrongly(self, rows: Mapping[str, Row]) -> Iterator[str]:
        """Everybody ended as it was told to, or by an accident that is on record."""
        for task_id, row in rows.items():
            if (row.state, row.reason) not in self.expected.get(task_id, CHILD_ENDS):
                yield f"wrong end: {task_id} {row}"

    def _loose_ends(self) -> Iterator[str]:
        """No event unpublished, no dead node taken for a living one, no bundle that is none."""
        ((events,),) = self.query("SELECT count(*) FROM outbox")
        if events:
            yield f"loose: {events} events were never published"
        unended = self.query("SELECT node_id FROM nodes WHERE ended_at IS NULL")
        if len(unended) > self.nodes:
            yield f"loose: {unended} all count as running"
        for path, status in self.query("SELECT path, status FROM autopsies"):
            if status != "failed" and (wrong := _unreadable(Path(path))):
                yield f"bundle: {wrong}"


def _each(trails: Mapping[str, Sequence[Move]]) -> Iterator[tuple[str, Move]]:
    return ((task_id, move) for task_id, moves in trails.items() for move in moves)


def _same_endings(
    stored: Sequence[tuple[str, str]] | None, audited: Sequence[tuple[str, str]] | None
) -> bool:
    """A stop wish decides how the task moves; the attempt keeps what was seen of its end."""
    if stored is None or audited is None or len(audited) != 1:
        return False
    (ending,), (move,) = stored, audited
    return ending == move or (ending[0] == move[0] and move[1] in ("canceled", "forced"))


def _illegal_move(moves: Sequence[Move]) -> str:
    if (moves[0].before, moves[0].after) != (None, State.PENDING):
        return f"begins with {moves[0]}"
    for earlier, move in pairwise(moves):
        if move.before != earlier.after:
            return f"{move} follows {earlier}"
        if not is_legal(State(move.before), State(move.after)):
            return f"{move} is not in the table"
    return ""


def _unreadable(path: Path) -> str:
    try:
        read_bundle(path)
    except AutopsyError as exc:
        return str(exc)
    return ""


class Span(NamedTuple):
    """From when to when an execution was seen at work; seconds of a clock all nodes share."""

    task_id: str
    attempt: int
    node: str
    first: float
    last: float


def spans(runs: Path) -> list[Span]:
    """Return the executions that were seen at work, by task and time."""
    stamps: dict[tuple[str, int, str], list[float]] = defaultdict(list)
    file = runs.with_name(f"{runs.name}.stamps")
    for line in file.read_text().splitlines() if file.exists() else ():
        task_id, attempt, node, at = line.split(" ")
        stamps[task_id, int(attempt), node].append(float(at))
    found = [Span(*key, min(times), max(times)) for key, times in stamps.items()]
    return sorted(found, key=lambda one: (one.task_id, one.first))


def overlaps(runs: Path) -> Iterator[str]:
    """No two executions of one task were at work at the same time, wherever they ran."""
    for one, other in pairwise(spans(runs)):
        if one.task_id == other.task_id and other.first <= one.last:
            yield f"overlap: {one} and {other}, for {one.last - other.first:.3f} s"


def executions(runs: Path) -> dict[str, list[int]]:
    """Return the numbers of the attempts that wrote down their execution, in order."""
    found: dict[str, list[int]] = defaultdict(list)
    for line in runs.read_text().splitlines() if runs.exists() else ():
        task_id, attempt, *_ = line.split()
        found[task_id].append(int(attempt))
    return dict(found)


def trails_of(query: Query) -> dict[str, list[Move]]:
    """Return the moves of every task."""
    found: dict[str, list[Move]] = defaultdict(list)
    for task_id, *move in query(
        "SELECT task_id, from_state, to_state, operator, reason, attempt FROM audit_log"
        " WHERE to_state IS NOT NULL ORDER BY id"
    ):
        found[task_id].append(Move(*move))
    return dict(found)
