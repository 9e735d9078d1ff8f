"""`supervisor submit`: one task by flags, or a file of specs.

Secret kept here: how a file is read. Invariant: every line is checked before the first is written,
so a file with a bad line writes nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from supervisor.cli.appname import app_name
from supervisor.cli.call import Call, command, os_user
from supervisor.errors import (
    ConfigError,
    InvalidSpec,
    Problem,
    StoreUnavailable,
    SupervisorError,
)
from supervisor.model.spec import NO_SOFT_TIMEOUT, TaskSpec, long_params, parse_spec, shorten

if TYPE_CHECKING:
    from supervisor.client import Handle

BATCH = 1000  # tasks of one transaction: long enough to be fast, short enough for other writers
SHOWN_MAX = 20
PROBLEMS_MAX = 20
UNCHECKED = "params were not checked: give --app MODULE:app"
FILE_ENDINGS = (".json", ".jsonl", ".ndjson")
_FLAGS = {"params": "--param", "params_json": "--params", "tags": "--tag"}


class SoftLimit(click.ParamType[float]):
    """Seconds, or the word none."""

    name = "seconds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if str(value).lower() == "none":
            return NO_SOFT_TIMEOUT
        try:
            seconds = float(value)
        except ValueError:
            seconds = NO_SOFT_TIMEOUT
        if seconds == NO_SOFT_TIMEOUT:
            self.fail(f"{value!r} is neither seconds nor none", param, ctx)
        return seconds


@command(example="supervisor submit export_report --param user_id=1001 --by alice")
@click.argument("what", metavar="TYPE|FILE|-")
@click.option("params", "--param", multiple=True, metavar="NAME=VALUE", help="JSON, else text.")
@click.option("params_json", "--params", metavar="JSON", help="All params as one JSON object.")
@click.option("--dedup-key", help="Return the task that holds this key, if there is one.")
@click.option("--queue", help="Queue of the task.")
@click.option("--priority", type=click.IntRange(0, 9), help="0 to 9, higher first.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Hard limit of an attempt.")
@click.option(
    "--soft-timeout", type=SoftLimit(), metavar="SECONDS", help="Soft limit of an attempt, or none."
)
@click.option("--max-retries", type=int, help="How often it is run again.")
@click.option("--run-after", metavar="TIME", help="ISO 8601 with offset: not before this.")
@click.option("tags", "--tag", multiple=True, help="A tag; may be repeated.")
@click.option("--task-id", help="An id of your own: task_ and 32 hex digits.")
@click.option("--by", help="Who submits. [default: your user name]")
@click.option(
    "app",
    "--app",
    metavar="MODULE[:app]",
    callback=app_name,
    help="Check types and params against it.",
)
def submit(call: Call, what: str, app: str | None, **given: Any) -> None:
    """Submit one task, or a file of them.

    A file (or - for stdin) holds one JSON spec, a JSON list of them, or one a line. All are
    checked first: a bad one writes nothing. Tasks of a file are written 1000 at a time.
    """
    options = {name: value for name, value in given.items() if value not in (None, ())}
    if _is_file(what, options):
        specs = _from_file(what, options)
    else:
        specs = [("spec", _from_flags(what, options))]
    parsed = _checked(specs, app, options.get("by") or os_user())
    made = _new_store(call)
    handles = list(_write(call, parsed))
    notes = [f"made a new store at {made}"] if made else []
    notes += _unannounced(call, parsed)
    notes += [*filter(None, map(long_params, parsed))][:1]
    if app is None:
        notes.append(UNCHECKED)
    _answer(call, handles, notes)


def _is_file(what: str, options: Mapping[str, Any]) -> bool:
    if what == "-":
        return True
    if "params" in options or "params_json" in options:
        return Path(what).is_file()  # params belong to a type: refused with the others, not guessed
    return "/" in what or what.endswith(FILE_ENDINGS) or Path(what).is_file()


def _from_flags(type_name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    spec = {k: v for k, v in options.items() if k not in {"params", "params_json", "by", "tags"}}
    params: Any = {}
    if "params_json" in options:
        try:
            params = json.loads(options["params_json"])
        except ValueError as exc:
            raise click.UsageError(f"--params is not JSON: {exc}") from exc
    for pair in options.get("params", ()):
        name, mark, text = pair.partition("=")
        if not mark or not name:
            raise click.UsageError(f"--param takes NAME=VALUE, not {pair!r}")
        if isinstance(params, dict) and name in params:
            raise click.UsageError(f"the param {name!r} is given twice")
        params[name] = _value(text)
    if options.get("soft_timeout") == NO_SOFT_TIMEOUT:
        spec["soft_timeout"] = None
    if "tags" in options:
        spec["tags"] = list(options["tags"])
    return {"type": type_name, "params": params, **spec}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _from_file(what: str, options: Mapping[str, Any]) -> list[tuple[str, Any]]:
    others = sorted(options.keys() - {"by"})
    if others:
        flags = ", ".join(_FLAGS.get(name, "--" + name.replace("_", "-")) for name in others)
        named = "" if what == "-" else f", and {what} is one"
        raise ConfigError(
            f"{flags} cannot be given with a file{named}",
            remedy="Write it into the specs of the file; to submit one task of a type that is "
            "called like a file here, run the command in another directory.",
        )
    try:
        text = sys.stdin.read() if what == "-" else Path(what).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(
            f"{what} cannot be read: {exc}", remedy="Name a UTF-8 file that you may read."
        ) from exc
    try:
        whole = json.loads(text)
    except ValueError:
        return [_from_line(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    if isinstance(whole, list):
        return [(f"[{index}]", item) for index, item in enumerate(whole)]
    return [("spec", whole)]


def _from_line(number: int, line: str) -> tuple[str, Any]:
    try:
        return f"line {number}", json.loads(line)
    except ValueError as exc:
        raise InvalidSpec(
            [Problem(f"line {number}", f"is not JSON ({exc})", shorten(line))]
        ) from exc


def _checked(specs: Sequence[tuple[str, Any]], app: str | None, by: str) -> list[TaskSpec]:
    check: Callable[[Any], TaskSpec] = parse_spec
    if app is not None:
        from supervisor.worker.zygote import load_app

        check = load_app(app).checked
    problems: list[Problem] = []
    parsed: list[TaskSpec] = []
    for where, raw in specs:
        signed = {"submitted_by": by, **raw} if isinstance(raw, dict) else raw
        try:
            parsed.append(check(signed))
        except InvalidSpec as exc:
            prefix = "" if where == "spec" else f"{where}: "
            problems += [Problem(prefix + p.path, p.why, p.given) for p in exc.problems]
    if problems:
        more = len(problems) - PROBLEMS_MAX
        rest = [Problem("…", f"and {more} more problems")] if more > 0 else []
        raise InvalidSpec(problems[:PROBLEMS_MAX] + rest)
    return parsed


def _new_store(call: Call) -> str:
    """Return the name of the store that this submit is going to make, empty if it is there."""
    from supervisor.settings import store_file, without_password
    from supervisor.store import is_present

    url = call.settings.store
    file = store_file(url)
    if file is not None:
        return "" if is_present(file) else str(file)
    try:
        _ = call.client().reader  # stays open for the submit
    except StoreUnavailable as exc:
        return without_password(url) if exc.facts.get("schema", "") is None else ""
    return ""


def _write(call: Call, parsed: Sequence[TaskSpec]) -> Iterator[Handle]:
    client = call.client()
    batches = range(0, len(parsed), BATCH)
    written = 0
    try:
        for start in _progress(call, batches, len(parsed)):
            handles = client.submit(parsed[start : start + BATCH])
            written += len(handles)
            yield from handles
    except SupervisorError as exc:
        exc.facts["written"] = written
        raise


def _unannounced(call: Call, parsed: Sequence[TaskSpec]) -> list[str]:
    """Say which types of these tasks no node has ever spoken of: perhaps a typing error."""
    announced = {view.type for view in call.client().reader.types()}
    return [
        f"no node has announced this type yet: {name}"
        for name in sorted({spec.type for spec in parsed} - announced)
    ]


def _progress(call: Call, batches: range, total: int) -> Iterator[int]:
    if len(batches) < 2 or call.as_json or not sys.stderr.isatty():
        yield from batches
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("submitting", total=total)
        for start in batches:
            yield start
            progress.update(bar, completed=min(start + BATCH, total))


def _answer(call: Call, handles: Sequence[Handle], notes: Sequence[str]) -> None:
    created = sum(handle.created for handle in handles)
    document = {
        "tasks": [{"task_id": h.task_id, "created": h.created} for h in handles],
        "created": created,
        "existing": len(handles) - created,
        "notes": notes,
    }

    def lines() -> Iterator[str]:
        for handle in handles[:SHOWN_MAX]:
            yield f"{handle.task_id} {'created' if handle.created else 'exists already'}"
        if len(handles) > SHOWN_MAX:
            yield f"… and {len(handles) - SHOWN_MAX} more"
        if len(handles) != 1:
            yield f"{created} created, {len(handles) - created} existed already"

    call.answer(document, lines)
    if not call.as_json:
        for note in notes[:SHOWN_MAX]:
            click.echo(f"note: {note}", err=True)
