"""`supervisor pause`, `resume` and `queues`."""

from __future__ import annotations

from collections.abc import Iterator

import click

from supervisor.cli.call import Call, command, fields_of, os_user, signed
from supervisor.cli.group import EXIT_REFUSED
from supervisor.cli.text import cell, columns
from supervisor.words.roll import roll_call
from supervisor.words.text import clock


@command(example='supervisor pause exports --reason "the bank is down"')
@click.argument("queue", metavar="QUEUE")
@click.option("--priority", type=click.IntRange(0, 9), help="Only this priority of it.")
@signed()
def pause(call: Call, queue: str, priority: int | None, reason: str, by: str | None) -> int:
    """Let no more tasks of a queue start.

    Running tasks go on. Exits 1 if it was paused already.
    """
    known = call.client().reader.knows_queue(queue)
    changed = call.client().pause(queue, priority, by=by or os_user(), reason=reason)
    note = "" if known else "no task has used this queue yet"
    return _told(call, queue, priority, changed=changed, verb="paused", note=note)


@command(example='supervisor resume exports --reason "the bank is back"')
@click.argument("queue", metavar="QUEUE")
@click.option("--priority", type=click.IntRange(0, 9), help="Only this priority of it.")
@signed(default="resumed")
def resume(call: Call, queue: str, priority: int | None, reason: str, by: str | None) -> int:
    """Let tasks of a paused queue start again.

    Exits 1 if it was not paused. A priority paused on its own is resumed on its own.
    """
    changed = call.client().resume(queue, priority, by=by or os_user(), reason=reason)
    return _told(call, queue, priority, changed=changed, verb="resumed")


def _told(
    call: Call, queue: str, priority: int | None, *, changed: bool, verb: str, note: str = ""
) -> int:
    what = cell(queue) if priority is None else f"{cell(queue)}, priority {priority}"
    text = f"{what}: {verb}" if changed else f"{what}: nothing to do, it is {verb} already"
    document = {"queue": queue, "priority": priority, "changed": changed, "answer": verb}
    lines = [f"{text}; {note}" if note else text]
    call.answer({**document, "note": note}, lambda: lines)
    return 0 if changed else EXIT_REFUSED


@command(example="supervisor queues --json")
def queues(call: Call) -> None:
    """List queues with their depth.

    IN QUEUE counts tasks that are due now, SCHEDULED those whose time has not come.
    """
    reader = call.client().reader
    found = reader.queues(reader.store.clock.now())
    no_node = not roll_call(reader).running

    def lines() -> Iterator[str]:
        rows = [
            (
                cell(view.queue),
                str(view.in_queue),
                str(view.scheduled),
                str(view.running),
                _paused(view.paused, view.paused_priorities),
                f"{clock(view.at)} by {cell(view.by)}: {cell(view.reason)}" if view.by else "-",
            )
            for view in found
        ]
        head = ("QUEUE", "IN QUEUE", "SCHEDULED", "RUNNING", "PAUSED", "LAST PAUSE OR RESUME")
        yield from columns(head, rows) if rows else ["no queues yet"]
        if no_node and any(view.running for view in found):
            yield "no node runs: RUNNING is the last word of one that is gone"

    document = [{**fields_of(view), "at": view.at if view.by else None} for view in found]
    call.answer({"queues": document, "node_runs": not no_node}, lines)


def _paused(whole: bool, priorities: tuple[int, ...]) -> str:
    if whole:
        return "yes"
    return "priority " + ", ".join(map(str, priorities)) if priorities else "no"
