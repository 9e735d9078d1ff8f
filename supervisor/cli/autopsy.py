"""`supervisor autopsy`: the evidence of stuck and killed attempts."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from supervisor.cli.appname import app_name
from supervisor.cli.call import Call, command, os_user
from supervisor.cli.ids import full_id
from supervisor.cli.text import cell, columns
from supervisor.clock import Clock, SystemClock
from supervisor.errors import Refused
from supervisor.model.states import Reason
from supervisor.words.sentence import diagnosis
from supervisor.words.text import clock, plain, size

if TYPE_CHECKING:
    from autopsy.bundle import Bundle
    from autopsy.capture import Order
    from autopsy.memfd import Kept
    from autopsy.retention import Listed
    from supervisor.store import AutopsyRecord, Reader, Store, TaskView, WorkerRecord
    from supervisor.store.view import AttemptView


#: The verdict of a bundle that a person wanted.
ASKED = "asked"
#: A param of this length can be a secret that is marked as one; a shorter text is a word.
UNMARKED_CHARACTERS = 8


@click.group()
def autopsy() -> None:
    """Look at why tasks were stuck: bundles of evidence with a diagnosis."""


@command(name="list", example="supervisor autopsy list --limit 10", group=autopsy)
@click.argument("task_id", metavar="[TASK_ID]", required=False)
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Bundles shown."
)
def list_autopsies(call: Call, task_id: str | None, limit: int) -> None:
    """List bundles, newest first, of all tasks or of one.

    Files that no row names, since their node died first, follow after the others.
    """
    wanted = None if task_id is None else full_id(call, task_id)
    found = call.client().reader.autopsies(wanted, limit)
    unrecorded = _unrecorded(call, wanted, {one.path for one in found})[:limit]

    def lines() -> Iterator[str]:
        rows = [
            (
                cell(one.autopsy_id),
                clock(one.created_at),
                cell(one.task_id),
                cell(one.attempt),
                cell(one.verdict),
                cell(diagnosis(one)),
                cell(one.status),
                size(one.bytes),
            )
            for one in found
        ]
        head = ("AUTOPSY", "TAKEN", "TASK", "ATTEMPT", "VERDICT", "DIAGNOSIS", "STATUS", "SIZE")
        yield from columns(head, rows) if rows else ["no autopsies"]
        for file in unrecorded:
            what = "whole" if file.complete else "unfinished"
            written = f"{clock(file.written_at)}, {size(file.size_bytes)}, {what}"
            yield f"not recorded: {plain(file.path)} ({written})"

    call.answer({"autopsies": found, "unrecorded": unrecorded}, lines)


def _unrecorded(call: Call, task_id: str | None, recorded: set[str]) -> list[Listed]:
    from autopsy.retention import list_bundles

    reader = call.client().reader
    return [
        file
        for file in list_bundles(Path(call.settings.autopsy_dir))
        if str(file.path) not in recorded
        and (task_id is None or file.path.name.startswith(task_id))
        and reader.autopsy(file.path.name.split(".zip")[0]) is None
    ]


@command(example="supervisor autopsy show 8823134a", group=autopsy)
@click.argument("given", metavar="ID")
@click.option("--html", metavar="FILE", help="Write it as an HTML page to a file; - prints it.")
def show(call: Call, given: str, html: str | None) -> None:
    """Print the report of a bundle.

    ID is that of an autopsy, or of a task, whose newest one is shown.
    """
    record = _find(call, given)
    bundle = _open(call.client().reader, record)
    if html is not None:
        _show_page(call, record, bundle, html)
        return
    document = {
        "autopsy": record,
        "diagnosis": [asdict(one) for one in bundle.heading.diagnosis],
        "sections": [asdict(entry) for entry in bundle.entries],
        "report": bundle.report,
    }
    call.answer(document, lambda: [plain(bundle.report).rstrip("\n")])


def _show_page(call: Call, record: AutopsyRecord, bundle: Bundle, target: str) -> None:
    from autopsy.page import page_of, write_page

    with _refusals():
        page = page_of(bundle)
    if target == "-":
        click.echo(page, nl=False)
        return
    with _refusals():
        write_page(target, page)
    call.answer({"autopsy": record, "file": target}, lambda: [target])


@command(example="supervisor autopsy export 8823134a --to /tmp/why.zip", group=autopsy)
@click.argument("given", metavar="ID")
@click.option("--to", metavar="FILE", help="Where to. [default: its own name, here]")
@click.option("--force", is_flag=True, help="Replace a file that exists.")
def export(call: Call, given: str, to: str | None, force: bool) -> None:
    """Copy a bundle to a file, after verifying it.

    ID is that of an autopsy, or of a task, whose newest one is taken.
    """
    record = _find(call, given)
    _open(call.client().reader, record)
    target = Path(to or Path(record.path).name)
    try:
        with (
            Path(record.path).open("rb") as bundle,
            open(target, "wb" if force else "xb", opener=_for_its_owner) as out,
        ):
            shutil.copyfileobj(bundle, out)
    except FileExistsError as exc:
        raise Refused(
            f"{target} exists", remedy="Name another file with --to, or replace it with --force."
        ) from exc
    except OSError as exc:
        raise Refused(
            f"{target} cannot be written: {exc.strerror}", remedy="Name another file with --to."
        ) from exc
    call.answer({"autopsy": record, "file": str(target)}, lambda: [str(target)])


def _for_its_owner(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


@command(example="supervisor autopsy capture 8823134a", group=autopsy)
@click.argument("task_id", metavar="TASK_ID")
@click.option("--by", help="Who asks. [default: your user name]")
@click.option(
    "--app",
    metavar="MODULE[:app]",
    callback=app_name,
    help="Hide what its secret_params say. [default: hide all longer texts of the params]",
)
@click.option("--native", is_flag=True, help="With the calls of C code; it stands still longer.")
def capture(call: Call, task_id: str, by: str | None, app: str | None, native: bool) -> None:
    """Take evidence of a running attempt on this host and let it live."""
    from supervisor.words.living import living_worker

    client = call.client()
    task = client.view(full_id(call, task_id))
    worker = living_worker(client.reader, task, "autopsy capture")
    order = _order(call, task, worker, by or os_user(), _secrets(task, app), native=native)
    record = _capture(order, task, client.reader.store.clock)
    client.record_autopsy(record)
    bundle = _open(client.reader, record)
    document = {"autopsy": record, "report": bundle.report}
    head = f"{record.autopsy_id}  {_headline(bundle)}  {record.path}"
    call.answer(document, lambda: [head, plain(bundle.report)])


def _headline(bundle: Bundle) -> str:
    best = next(iter(bundle.heading.diagnosis), None)
    return "no diagnosis" if best is None else f"{best.code} ({best.confidence:.0%} sure)"


def _secrets(task: TaskView, app: str | None) -> tuple[str, ...]:
    """Return the values that no evidence may show. Which are marked only the app knows."""
    from autopsy.secret import in_params, leaves

    params = json.loads(task.params_json)
    if app is None:
        unmarked = (one for one in leaves(params) if len(one) >= UNMARKED_CHARACTERS)
        return (*in_params(params), *unmarked)
    from supervisor.worker.zygote import load_app

    known = load_app(app).types.get(task.type)
    return tuple(in_params(params, known.options.secret_params if known else ()))


def _order(
    call: Call,
    task: TaskView,
    worker: WorkerRecord,
    by: str,
    secrets: tuple[str, ...],
    *,
    native: bool,
) -> Order:
    from autopsy.capture import Order
    from autopsy.collect.database.asking import Asking
    from supervisor.worker.session import name_of

    application = name_of(task.task_id, task.attempt)
    autopsy_id = f"{task.task_id}-{task.attempt}-{SystemClock().now():%y%m%d%H%M%S%f}"
    return Order(
        pid=worker.pid,
        start_ticks=worker.start_ticks,
        out=Path(call.settings.autopsy_dir) / f"{autopsy_id}.zip",
        budget_s=call.settings.autopsy_budget,
        memory_over_bytes=call.settings.memory_snapshot_bytes,
        facts=_facts(task, worker) | {"why": f"asked for by {by}"},
        kept=_own_words(call.client().reader.store, task, worker),
        secrets=secrets,
        native=native,
        asking=Asking(True, call.settings.autopsy_databases, application),
    )


def _facts(task: TaskView, worker: WorkerRecord) -> dict[str, object]:
    """Return what the store knows; limits in force and what the probes saw only the node does."""
    return {
        "task_id": task.task_id,
        "attempt": task.attempt,
        "type": task.type,
        "queue": task.queue,
        "submitted_by": task.submitted_by,
        "worker_id": worker.worker_id,
        "node_id": worker.node_id,
        "pid": worker.pid,
    }


def _capture(order: Order, task: TaskView, clock: Clock) -> AutopsyRecord:
    from autopsy.capture import capture as take
    from supervisor.store import AutopsyRecord

    out = order.out or Path()
    with _refusals():
        out.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        taken = take(order)
    found = [asdict(one) for one in taken.heading.diagnosis]
    return AutopsyRecord(
        autopsy_id=out.stem,
        task_id=task.task_id,
        attempt=task.attempt,
        node_id=task.node_id or "",
        pid=order.pid,
        path=str(out),
        status=taken.status,
        verdict=ASKED,
        diagnosis=found[0]["code"] if found else None,
        diagnosis_json=json.dumps(found, ensure_ascii=False),
        created_at=clock.now(),
        bytes=taken.size_bytes,
        ms=int(taken.heading.duration_ms),
    )


def _own_words(store: Store, task: TaskView, worker: WorkerRecord) -> Kept:
    """Say from where on the worker's output and log are this attempt's, by this host's clock."""
    from autopsy.memfd import Kept
    from supervisor.words.living import live_signs

    signs = live_signs(store, worker, task)
    return Kept(
        output_start=0 if signs is None else signs.output_start,
        begun_at=0.0 if task.started_at is None else task.started_at.timestamp() + store.skew_s,
    )


def _find(call: Call, given: str) -> AutopsyRecord:
    reader = call.client().reader
    found = reader.autopsy(given)
    if found is None:
        task_id = full_id(call, given)
        found = next(iter(reader.autopsies(task_id, 1)), None)
        if found is None and (task := reader.task(task_id)) is not None:
            raise _no_bundle(task, reader.attempts(task.task_id))
    if found is None:
        raise Refused(
            f"no autopsy and no task with an autopsy is called {given}",
            remedy="`supervisor autopsy list` shows what there is.",
        )
    return found


def _no_bundle(task: TaskView, attempts: Sequence[AttemptView]) -> Refused:
    """Say why a task has no bundle, and what tells of its ending instead."""
    last = attempts[-1] if attempts else None
    if last is not None and last.reason == Reason.SOFT_TIMEOUT:
        return Refused(
            f"no autopsy of {task.task_id}: attempt {last.attempt} obeyed its soft time limit",
            remedy=f"Its traceback in `supervisor show {task.task_id}` says where it was; "
            "a bundle is taken only before a kill or by `supervisor autopsy capture`.",
        )
    how = "was not started yet" if last is None else f"is {task.state} ({task.reason})"
    return Refused(
        f"no autopsy of {task.task_id}, which {how}",
        remedy="A bundle is taken before a kill, after a crash (not after each of many), or of a "
        f"running task by `supervisor autopsy capture`; see `supervisor show {task.task_id}`.",
    )


def _open(reader: Reader, record: AutopsyRecord) -> Bundle:
    from autopsy.bundle import read_bundle

    if not record.path or not Path(record.path).exists():
        known = f"; its diagnosis was {record.diagnosis}" if record.diagnosis else ""
        raise Refused(
            f"the bundle {record.path or record.autopsy_id} is not there{known}",
            remedy=f"Look on {_host_of(reader, record)}; old bundles are removed after "
            "autopsy_keep_days.",
            node_id=record.node_id,
            status=record.status,
        )
    with _refusals():
        return read_bundle(Path(record.path))


def _host_of(reader: Reader, record: AutopsyRecord) -> str:
    from supervisor.store.muster import name_of

    host = name_of(reader.store, record.node_id)
    return f"the host of node {record.node_id}" if host is None else f"host {host}"


@contextmanager
def _refusals() -> Iterator[None]:
    """Let the autopsy package's errors end at the command line like our own."""
    from autopsy.errors import AutopsyError

    try:
        yield
    except AutopsyError as exc:
        raise Refused(exc.message, remedy=exc.remedy) from exc
    except OSError as exc:
        raise Refused(
            f"{exc.filename}: {exc.strerror}", remedy="Check that autopsy_dir can be written."
        ) from exc
