"""The common ending in bulk: the body returned, in time, and nobody had asked it to stop.

Secret kept here: one statement moves all tasks of a batch and names those it moved, so that nothing
is read first. What is not that plain (a stop mark, a key to release, a stale attempt) is not moved,
and stays for `finish` to judge. Called by `finish` only.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec
from sqlalchemy import Integer, String, bindparam, func, text, update

from supervisor.model.outcome import Outcome, Settlement, succeeded
from supervisor.model.record import Ending
from supervisor.model.states import State, require_legal
from supervisor.store.schema import Moment, attempts, audit_log
from supervisor.store.session import Ordered, Session, insert_into, ordered, storable

_encode = msgspec.json.Encoder().encode  # on the hot path: a tenth of what json.dumps takes


def succeed(
    session: Session, endings: Sequence[Ending], *, operator: str, now: datetime | None
) -> dict[str, Settlement]:
    """End the plain successes among these; return what became of the tasks it ended, by id.

    Of several endings of one task only the first is considered: it is the one that counts.
    """
    first: dict[str, Ending] = {}
    for ending in endings:
        first.setdefault(ending.task_id, ending)
    plain = {task_id: ending for task_id, ending in first.items() if _is_plain(ending.outcome)}
    require_legal(State.RUNNING, State.SUCCESS)
    keys = [(e.task_id, e.attempt, session.encode(e.ended_at)) for e in plain.values()]
    ended = {
        task_id: succeeded(retry_count, crash_count)
        for task_id, retry_count, crash_count in session.rows_for(_move, keys)
    }
    _write(session, [plain[task_id] for task_id in ended], operator, now)
    return ended


def _is_plain(outcome: Outcome) -> bool:
    return outcome.state is State.SUCCESS and outcome.detail is None


def _write(
    session: Session, endings: Sequence[Ending], operator: str, now: datetime | None
) -> None:
    session.write_many(
        _update_attempt,
        [
            (
                session.encode(ending.started_at),
                session.encode(ending.ended_at),
                storable(ending.outcome.result_json),
                encode_usage(ending),
                ending.task_id,
                ending.attempt,
            )
            for ending in endings
        ],
    )
    session.write_many(
        _insert_audit,
        [
            (ending.task_id, ending.attempt, session.encode(now or ending.ended_at), operator)
            for ending in endings
        ],
    )


def encode_usage(ending: Ending) -> str | None:
    """Return what an attempt used as its row keeps it."""
    return _encode(ending.usage).decode() if ending.usage else None


def _insert_audit() -> Ordered:
    moved = {"from_state": "'RUNNING'", "to_state": "'SUCCESS'", "reason": "'returned'"}
    return insert_into(audit_log, "task_id", "attempt", "at", "operator", **moved)


def _move(size: int) -> Ordered:
    names = [(f"task_{n}", f"attempt_{n}", f"ended_{n}") for n in range(size)]
    rows = ", ".join(f"(:{task}, :{attempt}, :{ended})" for task, attempt, ended in names)
    return ordered(
        text(
            f"WITH it (task_id, attempt, ended_at) AS (VALUES {rows})"  # noqa: S608 - our own names
            " UPDATE tasks SET state = 'SUCCESS', reason = 'returned', ended_at = it.ended_at"
            " FROM it WHERE tasks.task_id = it.task_id AND tasks.attempt = it.attempt"
            " AND /* + */tasks.state = 'RUNNING' AND /* + */tasks.mark_kind IS NULL"
            " AND tasks.dedup_ttl IS NULL"
            " RETURNING tasks.task_id, tasks.retry_count, tasks.crash_count"
        ).bindparams(
            *(
                bindparam(name, type_=kind)
                for row in names
                for name, kind in zip(row, (String, Integer, Moment), strict=True)
            )
        ),
        *(name for row in names for name in row),
    )


def _update_attempt() -> Ordered:
    return ordered(
        update(attempts)
        .values(
            started_at=func.coalesce(bindparam("started", type_=Moment), attempts.c.started_at),
            ended_at=bindparam("ended"),
            outcome=text("'SUCCESS'"),
            reason=text("'returned'"),
            result=bindparam("its_result"),
            usage=bindparam("its_usage"),
            proof=text("'reported'"),
            effects_unknown=text("false"),
        )
        .where(
            attempts.c.task_id == bindparam("the_task"),
            attempts.c.attempt == bindparam("the_attempt"),
        ),
        "started",
        "ended",
        "its_result",
        "its_usage",
        "the_task",
        "the_attempt",
    )
