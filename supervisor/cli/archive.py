"""`supervisor archive`: move what has long ended to cold files, and search in them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from supervisor.cli.call import Call, command, fields_of, os_user
from supervisor.cli.cold import archive as cold_files
from supervisor.cli.flags import with_flags_of
from supervisor.cli.text import cell, columns, state_text
from supervisor.model.states import State
from supervisor.words.text import clock, plain, size

if TYPE_CHECKING:
    from supervisor.store.archive import Moved

SEARCH_MAX = 10_000


@with_flags_of("archive_dir", "retention_success_days", "audit_archive_days")
@command(name="archive", example="supervisor archive --older-than 90 --dry-run")
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    metavar="DAYS",
    help="Instead of both settings: what ended, and rows written, longer ago than this.",
)
@click.option("--dead-letters", is_flag=True, help="FAILED and TIMEOUT tasks too.")
@click.option(
    "--held-keys",
    is_flag=True,
    help="Tasks too whose dedup key is held for as long as they are in the store; it is free then.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    help="Tasks moved at most; where it is reached, audit rows of others wait for a later run.",
)
@click.option("--dry-run", is_flag=True, help="Only count.")
def _move(
    call: Call,
    older_than: float | None,
    dead_letters: bool,
    held_keys: bool,
    limit: int | None,
    dry_run: bool,
) -> None:
    """Move tasks that ended long ago, and old audit rows, from the store to cold files.

    A task goes with its attempts, logs, checkpoints, audit rows and records of autopsies. It is
    deleted only after its file was read back. Never moved: live tasks, and those that hold a dedup
    key. It may be stopped at any time; the next run finishes what this one began. `show`,
    `history`, `logs` and `archive search` find what was moved.
    """
    from supervisor.store import Ledger
    from supervisor.store.archive import Archive, Wanted, old

    store = call.client().reader.store
    now = store.clock.now()
    settings = call.settings
    wanted = Wanted(
        now=now,
        ended_before=old(
            now, settings.retention_success_days if older_than is None else older_than
        ),
        audit_before=old(now, settings.audit_archive_days if older_than is None else older_than),
        dead_letters=dead_letters,
        held_keys=held_keys,
        tasks_max=limit,
    )
    work = Archive(Ledger(store, store.clock), Path(settings.archive_dir), by=os_user())
    if dry_run:
        done = work.plan(wanted)
    else:
        shown = sys.stderr.isatty() and not call.as_json
        done = work.move(wanted, _tell if shown else _keep_silent)
    document = {**fields_of(done), "dry_run": dry_run, "archive_dir": settings.archive_dir}
    call.answer(document, lambda: _lines(done, dry_run=dry_run))


def _keep_silent(_: Moved) -> None:
    """Say nothing on the way."""


def _tell(so_far: Moved) -> None:
    kept = f"{so_far.tasks} tasks and {so_far.audit_rows} audit rows copied"
    click.echo(f"\r{kept}, {so_far.deleted_tasks} tasks deleted ", err=True, nl=False)


def _lines(done: Moved, *, dry_run: bool) -> Iterator[str]:
    what = f"{done.tasks} tasks and {done.audit_rows} audit rows"
    for file in done.finished_files:
        yield f"finished what an earlier run began: {plain(file)}"
    if dry_run:
        yield f"would move {what}"
    elif done.files:
        yield f"moved {what}, {size(done.bytes)}:"
        yield from (f"  {plain(file)}" for file in done.files)
    else:
        yield "nothing is old enough to be moved"
    for count, why in (
        (done.changed_meanwhile, "changed while they were copied: the next run sees to them"),
        (done.kept_dead_letters, "stay: they ended FAILED or TIMEOUT (--dead-letters moves them)"),
        (done.kept_keys, "stay: they hold a dedup key (--held-keys: those that hold it for good)"),
    ):
        if count:
            yield f"{count} {why}"
    if done.limit_reached:
        yield "there is more: the limit was reached"


@click.pass_context
def _move_unless(ctx: click.Context, /, **given: Any) -> Any:
    """Move, where no other word follows; then flags stand behind that word."""
    if ctx.invoked_subcommand is not None:
        told = [ctx.get_parameter_source(name) for name in given]
        if ParameterSource.COMMANDLINE in told:
            raise click.UsageError(f"flags stand behind `{ctx.invoked_subcommand}`", ctx)
        return None
    assert _move.callback is not None
    return _move.callback(**given)


archive = click.Group(
    "archive",
    help=_move.help,
    params=list(_move.params),
    callback=_move_unless,
    invoke_without_command=True,
)


def _moment(_: click.Context, parameter: click.Parameter, given: str | None) -> datetime | None:
    if given is None:
        return None
    try:
        moment = datetime.fromisoformat(given)
    except ValueError as error:
        raise click.BadParameter(
            f"{given!r} is no time; write 2026-05-20 or 2026-05-20T10:30", param=parameter
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@with_flags_of("archive_dir")
@command(example="supervisor archive search --type send_mail --since 2026-05-01", group=archive)
@click.argument("part", metavar="[ID]", default="")
@click.option(
    "states",
    "--state",
    multiple=True,
    type=click.Choice(list(State), False),
    help="May be repeated.",
)
@click.option("types", "--type", multiple=True, metavar="TYPE", help="May be repeated.")
@click.option("--text", default="", help="What stands anywhere in them; this reads all of them.")
@click.option("--since", metavar="TIME", callback=_moment, help="Ended later; UTC, ISO 8601.")
@click.option("--until", metavar="TIME", callback=_moment, help="Submitted earlier.")
@click.option(
    "--limit",
    type=click.IntRange(1, SEARCH_MAX),
    default=50,
    show_default=True,
    help="Tasks shown.",
)
def search(
    call: Call,
    part: str,
    states: tuple[str, ...],
    types: tuple[str, ...],
    text: str,
    since: datetime | None,
    until: datetime | None,
    limit: int,
) -> None:
    """Search the cold files, newest tasks first.

    ID is the beginning or the end of an id. A line without an id, or that says audit, is of rows of
    the trail that were moved without their task.
    """
    from supervisor.store.archive_search import ColdFilter

    wanted = ColdFilter(
        part=part,
        types=types,
        states=tuple(State(state) for state in states),
        text=text,
        since=since,
        until=until,
        limit=limit,
    )
    with cold_files(call) as cold:
        found = cold.search(wanted)

    def lines() -> Iterator[str]:
        rows = [
            (
                cell(line.task_id),
                state_text(line.state or "-"),
                cell(line.type, 40),
                line.kind,
                clock(line.created_at),
                clock(line.ended_at),
                plain(line.file.name, keep=""),
            )
            for line in found
        ]
        head = ("TASK", "STATE", "TYPE", "WHAT", "FROM", "UNTIL", "FILE")
        yield from columns(head, rows) if rows else ["nothing found"]

    call.answer({"found": found, "archive_dir": call.settings.archive_dir}, lines)
