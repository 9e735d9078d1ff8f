"""Acts on many tasks: begun, carried out a step at a time by whoever holds one, stopped.

Invariants: a step acts on its tasks and moves the act on in one transaction, so a step is taken
once or not at all whoever dies; nobody steps on what another one holds. Acts go through the same
functions as acts on one task, with the id of the whole in each reason. Called through
`Transaction`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

import uuid_utils
from sqlalchemy import bindparam, select, text, update

from supervisor.model.bulk import CHANGED, BulkAct, BulkVerb, Example
from supervisor.model.outcome import cut
from supervisor.model.query import parse, states_left
from supervisor.model.record import Acted
from supervisor.model.states import State
from supervisor.store.ledger import intervene
from supervisor.store.ledger.audit import SUPERVISOR, NoteReason, write_general_note
from supervisor.store.ledger.intervene import Act
from supervisor.store.schema import bulk_acts, tasks
from supervisor.store.session import (
    Ordered,
    Session,
    id_names,
    ids,
    insert_into,
    ordered,
    storable,
)

#: Characters of a reason beside which the id of the act has its place in a note.
REASON_MAX = 900
#: Examples of refused tasks that are kept.
EXAMPLES_MAX = 20
#: `total` of an act whose tasks are not counted yet.
_UNCOUNTED = -1

_ACTS: Mapping[BulkVerb, Callable[[Session, Sequence[str], Act], list[Acted]]] = MappingProxyType(
    {
        BulkVerb.CANCEL: intervene.cancel,
        BulkVerb.FAIL: intervene.fail,
        BulkVerb.RERUN: intervene.rerun,
    }
)


@dataclass(frozen=True, slots=True)
class Hold:
    """Who keeps an act away from others, from when on and until when."""

    holder: str
    now: datetime
    until: datetime

    def keeps_off(self, held_until: datetime | None) -> bool:
        """Say whether what another holds until then is not to be taken.

        Nobody holds for much longer than this: who seems to did so before a clock was set back.
        """
        longest = self.now + 2 * (self.until - self.now)
        return held_until is not None and self.now < held_until <= longest


class Bulk:
    """The verbs about acts on many, within one open transaction."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def begin(
        self, verb: BulkVerb, query: str, *, by: str, reason: str, now: datetime, as_of: datetime
    ) -> BulkAct:
        """Write down an act on all tasks of a frozen query. Raises: Refused when by or reason is
        blank."""
        act = Act(by, reason, now)
        begun = BulkAct(
            bulk_id=f"bulk_{uuid_utils.uuid7().hex}",
            verb=verb,
            query=query,
            operator=by,
            reason=reason,
            created_at=now,
            as_of=as_of,
        )
        at = self._session.encode(now)
        self._session.write(
            _insert, begun.bulk_id, verb.value, storable(query), storable(act.by),
            storable(act.reason), at, _UNCOUNTED, 0, 0, _document(begun),
        )  # fmt: skip
        told = f"{begun.bulk_id}: {verb} {query}: {reason}"
        write_general_note(self._session, now, NoteReason.BULK_BEGUN, told, by)
        return begun

    def hold(self, seen: BulkAct, hold: Hold) -> BulkAct | None:
        """Take or keep an act; None when it has moved or is another's."""
        act = self._own(seen, hold)
        return None if act is None else self._write(act)

    def count(self, seen: BulkAct, hold: Hold, found: int, next_id: str | None) -> BulkAct | None:
        """Count so many more tasks and move on to `next_id`; its answer is as that of `step`."""
        act = self._own(seen, hold)
        if act is None:
            return None
        counted = act.counted + found
        total = counted if next_id is None else None
        return self._write(replace(act, counted=counted, counted_to=next_id, total=total))

    def step(
        self, seen: BulkAct, hold: Hold, task_ids: Sequence[str], next_id: str | None
    ) -> BulkAct | None:
        """Act on these tasks and move on to `next_id`, None at the end of the query.

        Returns None, and does nothing, when the act has moved or is another's.
        """
        act, now = self._own(seen, hold), hold.now
        if act is None:
            return None
        answers = self._act(act, task_ids, now)
        done = sum(one.done for one in answers)
        counts = Counter(act.answers)
        counts.update(one.answer for one in answers)
        refused = [Example(one.task_id, one.answer, one.detail) for one in answers if not one.done]
        moved = replace(
            act,
            done=act.done + done,
            refused=act.refused + len(answers) - done,
            answers=dict(counts),
            examples=(*act.examples, *refused)[:EXAMPLES_MAX],
            next_id=next_id or act.next_id,
            ended_at=now if next_id is None else None,
        )
        if next_id is None:
            self._note_end(moved, SUPERVISOR, now)
        return self._write(moved)

    def stop(self, bulk_id: str, *, by: str, reason: str, now: datetime) -> bool:
        """End an act before its end; what is done stays done. False when it is over already."""
        Act(by, reason, now)
        act = self._find(bulk_id)
        if act is None or act.ended_at is not None:
            return False
        stopped = replace(act, ended_at=now, ended_by=by)
        self._write(stopped)
        self._note_end(stopped, by, now, f": {reason}")
        return True

    def stop_all_of(self, operator: str, *, by: str, why: str, now: datetime) -> None:
        """End what somebody has begun."""
        for (bulk_id,) in self._session.rows(_select_open_of, operator):
            self.stop(bulk_id, by=by, reason=why, now=now)

    def release(self, holder: str) -> None:
        """Hold nothing any more, so that another one goes on at once."""
        self._session.write(_release, holder)

    def _own(self, seen: BulkAct, hold: Hold) -> BulkAct | None:
        """Return the act as it is, held, if it may be moved on from where it was seen."""
        act = self._find(seen.bulk_id)
        if act is None or act.ended_at is not None or _place(act) != _place(seen):
            return None
        if act.holder not in (None, hold.holder) and hold.keeps_off(act.held_until):
            return None
        return replace(act, holder=hold.holder, held_until=hold.until)

    def _find(self, bulk_id: str) -> BulkAct | None:
        row = self._session.row(_select, bulk_id)
        return None if row is None else bulk_act(row, self._session.decode)

    def _act(self, act: BulkAct, task_ids: Sequence[str], now: datetime) -> list[Acted]:
        """Act on those that are still in the states that were asked for."""
        left = set(states_left(parse(act.query)))
        states = {row[0]: State(row[1]) for row in self._session.rows_of(_select_states, task_ids)}
        ready = [task_id for task_id in task_ids if states.get(task_id) in left]
        why = Act(act.operator, f"{cut(act.reason, REASON_MAX)} ({act.bulk_id})", now)
        answers = _ACTS[BulkVerb(act.verb)](self._session, ready, why) if ready else []
        changed = [
            Acted(task_id=task_id, answer=CHANGED, state=states.get(task_id),
                  detail=f"it is {states.get(task_id, 'gone')} now")
            for task_id in task_ids if states.get(task_id) not in left
        ]  # fmt: skip
        return answers + changed

    def _write(self, act: BulkAct) -> BulkAct:
        encode = self._session.encode
        total = _UNCOUNTED if act.total is None else act.total
        self._session.write(
            _update, total, act.done, act.refused, _document(act), act.next_id, act.holder,
            encode(act.held_until), encode(act.ended_at), storable(act.ended_by), act.bulk_id,
        )  # fmt: skip
        return act

    def _note_end(self, act: BulkAct, by: str, now: datetime, why: str = "") -> None:
        reason = NoteReason.BULK_ENDED if act.ended_by is None else NoteReason.BULK_STOPPED
        told = f"{act.bulk_id}: {act.done} done, {act.refused} not{why}"
        write_general_note(self._session, now, reason, told, by)


def _place(act: BulkAct) -> tuple[str | None, int | None, str | None]:
    return act.counted_to, act.total, act.next_id


def bulk_act(row: Any, decode: Callable[[Any], Any]) -> BulkAct:
    """Return a row of `bulk_acts`, in the order of its columns, as a value."""
    (bulk_id, verb, query, operator, reason, created_at, total, done, refused, document, next_id,
     holder, held_until, ended_at, ended_by) = row  # fmt: skip
    kept = {"answers": {}, "examples": (), **json.loads(document)}
    begun_at = decode(created_at)
    return BulkAct(
        bulk_id=bulk_id,
        verb=verb,
        query=query,
        operator=operator,
        reason=reason,
        created_at=begun_at,
        as_of=datetime.fromisoformat(kept["as_of"]) if "as_of" in kept else begun_at,
        counted=kept.get("counted", 0),
        counted_to=kept.get("counted_to"),
        total=None if total == _UNCOUNTED else total,
        done=done,
        refused=refused,
        answers=kept["answers"],
        examples=tuple(
            Example(one["task_id"], one["answer"], one.get("detail", ""))
            for one in kept["examples"]
        ),
        next_id=next_id,
        holder=holder,
        held_until=decode(held_until),
        ended_at=decode(ended_at),
        ended_by=ended_by,
    )


def _document(act: BulkAct) -> str:
    whole = {
        "as_of": act.as_of.isoformat(),
        "answers": dict(act.answers),
        "examples": [asdict(one) for one in act.examples],
        "counted": act.counted,
        "counted_to": act.counted_to,
    }
    return json.dumps(whole)


def _insert() -> Ordered:
    names = ("bulk_id", "verb", "query", "operator", "reason", "created_at", "total", "done",
             "refused", "answers")  # fmt: skip
    return insert_into(bulk_acts, *names)


def _select() -> Ordered:
    query = select(bulk_acts).where(bulk_acts.c.bulk_id == bindparam("the_act"))
    return ordered(query.with_for_update(), "the_act")


def _select_open_of() -> Ordered:
    query = select(bulk_acts.c.bulk_id).where(
        text("ended_at IS NULL"), bulk_acts.c.operator == bindparam("who")
    )
    return ordered(query.order_by(bulk_acts.c.created_at), "who")


def _select_states(size: int) -> Ordered:
    column = tasks.c
    return ordered(
        select(column.task_id, column.state)
        .where(column.task_id.in_(ids(size)))
        .order_by(column.task_id)
        .with_for_update(),
        *id_names(size),
    )


def _update() -> Ordered:
    names = ("total", "done", "refused", "answers", "next_id", "holder", "held_until", "ended_at",
             "ended_by")  # fmt: skip
    return ordered(
        update(bulk_acts)
        .values({name: bindparam(f"new_{name}") for name in names})
        .where(bulk_acts.c.bulk_id == bindparam("the_act")),
        *(f"new_{name}" for name in names),
        "the_act",
    )


def _release() -> Ordered:
    return ordered(
        update(bulk_acts)
        .values(holder=text("NULL"), held_until=text("NULL"))
        .where(text("ended_at IS NULL"), bulk_acts.c.holder == bindparam("the_holder")),
        "the_holder",
    )
