"""`supervisor cancel`, `rerun` and `fail`: acts on tasks, each id answered on its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import click

from supervisor.cli.call import Call, command, os_user, signed
from supervisor.cli.cold import archive
from supervisor.cli.group import EXIT_REFUSED
from supervisor.cli.ids import ALL_DIGITS, full_id
from supervisor.cli.text import cell, columns, state_text
from supervisor.model.record import Acted, Answer
from supervisor.words.roll import NO_NODE, roll_call

Verb = Callable[..., list[Acted]]
_FOR_A_NODE = frozenset({Answer.REQUESTED, Answer.ALREADY_REQUESTED})


@command(example='supervisor cancel 8823134a --reason "wrong month"')
@click.argument("task_ids", metavar="ID...", nargs=-1, required=True)
@signed()
def cancel(call: Call, task_ids: tuple[str, ...], reason: str, by: str | None) -> int:
    """Ask tasks to stop.

    A waiting task is CANCELED at once. A running one is told, may clean up for cancel_grace
    seconds, and is then killed; it reads CANCELED once it is verified gone. The last 6 digits of
    an ID will do.
    """
    return _act(call, call.client().cancel, task_ids, by, reason)


@command(example='supervisor rerun 8823134a --reason "the bank is back"')
@click.argument("task_ids", metavar="ID...", nargs=-1, required=True)
@signed()
def rerun(call: Call, task_ids: tuple[str, ...], reason: str, by: str | None) -> int:
    """Run FAILED or TIMEOUT tasks again.

    They start with fresh retries. A task whose dedup key another task holds is refused. The last
    6 digits of an ID will do.
    """
    return _act(call, call.client().rerun, task_ids, by, reason)


@command(example='supervisor fail 8823134a --reason "stuck since noon"')
@click.argument("task_ids", metavar="ID...", nargs=-1, required=True)
@signed()
def fail(call: Call, task_ids: tuple[str, ...], reason: str, by: str | None) -> int:
    """End stuck tasks as FAILED.

    A running task is told first and killed after cancel_grace seconds; it is not retried. The
    last 6 digits of an ID will do.
    """
    return _act(call, call.client().fail, task_ids, by, reason)


def _act(call: Call, verb: Verb, task_ids: Sequence[str], by: str | None, reason: str) -> int:
    answers = verb([full_id(call, given) for given in task_ids], by=by or os_user(), reason=reason)
    if any(answer.answer in _FOR_A_NODE for answer in answers):
        answers = _with_node(call, answers)
    answers = [_if_archived(call, answer) for answer in answers]
    document = [
        {
            "task_id": answer.task_id,
            "done": answer.done,
            "answer": answer.answer,
            "state": answer.state,
            "detail": answer.detail,
        }
        for answer in answers
    ]
    rows = [
        (cell(a.task_id), cell(a.answer), state_text(a.state or "-"), cell(a.detail, 120))
        for a in answers
    ]
    call.answer({"tasks": document}, lambda: columns(("TASK", "ANSWER", "STATE", "DETAIL"), rows))
    return 0 if all(answer.done for answer in answers) else EXIT_REFUSED


def _if_archived(call: Call, one: Acted) -> Acted:
    """Say of a task that is not found that it was archived, if so."""
    if one.answer != Answer.NOT_FOUND or len(one.task_id) < len("task_") + ALL_DIGITS:
        return one
    with archive(call) as cold:
        found = cold.task(one.task_id)
    if found is None:
        return one
    detail = f"it is in the archive: {found.files[-1]}"
    return replace(one, state=found.view.state, detail=detail)


def _with_node(call: Call, answers: Sequence[Acted]) -> list[Acted]:
    """Add to each wish that only a node can fulfil that none runs, if so."""
    if roll_call(call.client().reader).running:
        return list(answers)
    return [
        replace(one, detail="; ".join(filter(None, (one.detail, NO_NODE))))
        if one.answer in _FOR_A_NODE
        else one
        for one in answers
    ]
