"""`supervisor check`: what would go wrong at a start, told before it.

Secret kept here: what is looked at, in which order. Each finding is one line with ok, warn or fail
and, unless it is ok, a remedy. Nothing is written and no store is made.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from supervisor.cli.appname import app_name
from supervisor.cli.call import Call, command
from supervisor.cli.finding import EXIT_AWAY, FAIL, OK, WARN, Finding, lines
from supervisor.cli.flags import with_setting_flags
from supervisor.cli.group import EXIT_USAGE
from supervisor.cli.tracing import trace_findings
from supervisor.errors import ConfigError, StoreUnavailable, SupervisorError
from supervisor.settings import (
    NO_QUEUE,
    Settings,
    node_grace,
    relation_problems,
    relation_warnings,
    store_file,
    without_password,
)
from supervisor.words.roll import roll_call

if TYPE_CHECKING:
    from supervisor.app import App

F = TypeVar("F", bound=Callable[..., Any])

WRITE_WAIT_S = 1.0  # a node commits every few milliseconds: one that takes longer is worth a line


def _watched_by(name: str, metavar: str, prose: str) -> Callable[[F], F]:
    kind = click.Path(exists=True, path_type=Path)
    return click.option(name, type=kind, metavar=metavar, help=prose)


@with_setting_flags
@command(example="supervisor check shop.tasks:app --grace 180 --workers 4")
@click.argument("app", metavar="[MODULE[:app]]", required=False, callback=app_name)
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="What systemd, Docker or Kubernetes waits before it kills the node.",
)
@_watched_by("--prometheus", "FILE", "prometheus.yml: are nodes scraped, and these rules loaded?")
@_watched_by("--rules", "DIR", "Rule files: does this version have every metric they ask for?")
@_watched_by("--dashboards", "DIR", "Dashboards of Grafana: the same question.")
@_watched_by("--alertmanager", "FILE", "alertmanager.yml: has every route a receiver?")
def check(call: Call, app: str | None, grace: float | None, **files: Path | None) -> int:
    """Check settings, store, app and host before a start, or the files you watch with.

    Give it the flags that `run` will be given. With monitoring files and no app, it looks at these
    files alone. Exits 0 when nothing failed (warnings are allowed), 2 for settings, app or files,
    69 for the store or the doorbell.
    """
    watching = {name: path for name, path in files.items() if path is not None}
    found = [] if watching and app is None else list(_findings(call, app, grace))
    if watching:
        found += _watching(call, watching)
    failed = [finding for finding in found if finding.level == FAIL]
    document = {"ok": not failed, "findings": [finding.document() for finding in found]}
    call.answer(document, lambda: lines(found))
    return max((finding.code for finding in failed), default=0)


def _watching(call: Call, files: Mapping[str, Path]) -> Iterator[Finding]:
    from supervisor.cli.monitored import Monitored, monitoring_findings

    try:
        listen = call.settings.metrics_listen
    except ConfigError as exc:
        yield Finding("settings", FAIL, exc.message, exc.remedy, EXIT_USAGE)
    else:
        yield from monitoring_findings(Monitored(**files), listen)


def _findings(call: Call, app: str | None, grace: float | None) -> Iterator[Finding]:
    yield from _host()
    try:
        settings = call.settings
    except ConfigError as exc:
        yield Finding("settings", FAIL, exc.message, exc.remedy, EXIT_USAGE)
        return
    yield from _settings(settings, grace)
    yield from _store(settings)
    if settings.queue != NO_QUEUE:
        from supervisor.cli.server import bell_findings

        yield from bell_findings(settings)
    yield from _places(settings)
    yield from trace_findings(os.environ)
    yield from _evidence()
    if app is not None:
        yield from _app(app, settings)


def _host() -> Iterator[Finding]:
    from importlib import metadata

    from supervisor.app import NAMESAKE_WARNING

    if sys.platform == "linux" and hasattr(os, "pidfd_open"):
        yield Finding("host", OK, f"Linux, Python {sys.version.split()[0]}")
    else:
        yield Finding(
            "host", FAIL, f"{sys.platform} is not supported", "Run it on Linux 5.3 or newer."
        )
    try:
        metadata.distribution("supervisor")
    except metadata.PackageNotFoundError:
        yield Finding("name", OK, "no other distribution uses the import name supervisor")
    else:
        yield Finding(
            "name",
            FAIL,
            NAMESAKE_WARNING,
            "Install one of them in a virtual environment of its own.",
        )


def _settings(settings: Settings, grace: float | None) -> Iterator[Finding]:
    problems = relation_problems(settings, grace)
    for problem in problems:
        yield Finding(
            "settings", FAIL, str(problem), f"Change {problem.path} or what it is compared with.",
            EXIT_USAGE,
        )  # fmt: skip
    for problem in relation_warnings(settings):
        yield Finding("settings", WARN, str(problem), "Give it more, or them less.")
    if not problems:
        given = sum(source != "default" for source in settings.sources.values())
        yield Finding("settings", OK, f"valid; {given} differ from the defaults")
    if grace is None:
        yield Finding("grace", OK, f"a stop takes at most {node_grace(settings)}")
    elif not any(problem.path == "grace" for problem in problems):
        yield Finding("grace", OK, f"{grace:g} s is enough: {node_grace(settings)}")


def _store(settings: Settings) -> Iterator[Finding]:
    file = store_file(settings.store)
    if file is not None:
        yield from _file(file, settings)
        return
    from supervisor.cli.server import store_findings

    yield from store_findings(settings)


def _file(file: Path, settings: Settings) -> Iterator[Finding]:
    from supervisor.store import Reader, is_present, open_store

    if not is_present(file):
        if not _writable(file.parent):
            yield _no_place("store", file.parent, "--store", EXIT_AWAY)
            return
        yield Finding(
            "store", WARN, f"no store at {file} yet",
            "`supervisor run` and `submit` make it; or run `supervisor db upgrade`.",
        )  # fmt: skip
        return
    try:
        with closing(open_store(settings.store, create=False)) as store:
            with store.writing(wait_s=WRITE_WAIT_S):
                pass  # got the writers' turn and gave it back: nothing is written
            name, running = store.name, roll_call(Reader(store)).running
    except StoreUnavailable as exc:
        yield Finding("store", FAIL, exc.message, exc.remedy, EXIT_AWAY)
    except SupervisorError as exc:
        yield Finding("store", FAIL, exc.message, exc.remedy, exc.exit_code)
    else:
        yield Finding("store", OK, f"{name} is reachable, writable and up to date")
        for node in running:
            yield Finding(
                "node", WARN, f"node {node.node_name} (pid {node.pid}) runs on this store",
                "A second one would be refused: stop it first, or give the new one another store.",
            )  # fmt: skip


def _places(settings: Settings) -> Iterator[Finding]:
    folder = Path(settings.autopsy_dir)
    if _writable(folder):
        yield Finding("autopsies", OK, f"bundles go to {folder}")
    else:
        yield _no_place("autopsies", folder, "--autopsy-dir", EXIT_USAGE)
    if settings.metrics_listen is None:
        return
    host, _, port = settings.metrics_listen.rpartition(":")
    try:
        with socket.create_server((host.strip("[]"), int(port)), reuse_port=False):
            yield Finding("metrics", OK, f"{settings.metrics_listen} is free")
    except OSError as exc:
        yield Finding(
            "metrics", WARN, f"{settings.metrics_listen} cannot be taken: {_why(exc)}",
            "Fine if a node runs already; else give --metrics-listen another address.",
        )  # fmt: skip


def _why(error: OSError) -> str:
    """Return the system's words alone: Python adds the address to them, which stands before."""
    return os.strerror(error.errno) if error.errno else str(error)


def _evidence() -> Iterator[Finding]:
    from autopsy.collect.patient import open_patient
    from autopsy.collect.pyspy import Dumper

    dumper = Dumper()
    try:
        with open_patient(os.getpid()) as patient:
            dumped = dumper.dump(patient, os.getpid(), 5.0, "--nonblocking")
    finally:
        dumper.stop_all()
    if dumped.threads:
        yield Finding("evidence", OK, "py-spy may read the stacks of this user's processes")
    else:
        yield Finding(
            "evidence", WARN, f"py-spy cannot read stacks: {dumped.reason}",
            "Allow ptrace (cap_add: SYS_PTRACE, or kernel.yama.ptrace_scope=0); without it an "
            "autopsy falls back to what the worker itself can write.",
        )  # fmt: skip


def _app(reference: str, settings: Settings) -> Iterator[Finding]:
    from supervisor.worker.zygote import fork_obstacles, load_app

    try:
        app = load_app(reference)
    except SupervisorError as exc:
        yield Finding("app", FAIL, exc.message, exc.remedy, exc.exit_code)
        return
    names = ", ".join(sorted(app.types))
    if names:
        of_them = "1 task type" if len(app.types) == 1 else f"{len(app.types)} task types"
        yield Finding("app", OK, f"{reference} has {of_them}: {names}")
    else:
        yield Finding(
            "app", WARN, f"{reference} has no task types", "Import the modules that declare them."
        )
    yield from _same_store(app, settings)
    for name in sorted(settings.type_tables.keys() - app.types.keys()):
        yield Finding(
            "settings", WARN, f"[type.{name}] names no task type of {reference}",
            f"Correct it in the TOML file; the app's types are: {names or 'none'}.",
        )  # fmt: skip
    obstacles, warnings = fork_obstacles()
    for obstacle in obstacles:
        yield Finding(
            "fork", WARN, f"the app's import left something that forbids forking: {obstacle}",
            "Start it on first use instead; until then workers are exec'ed, which is slower.",
        )  # fmt: skip
    for warning in warnings:
        yield Finding("fork", WARN, warning, "Harmless for BLAS; else start it on first use.")


def _same_store(app: App, settings: Settings) -> Iterator[Finding]:
    try:
        theirs, their_queue = app.settings.store, app.settings.queue
    except ConfigError as exc:
        yield Finding("app", FAIL, exc.message, exc.remedy, EXIT_USAGE)
        return
    shown, ours = without_password(theirs), without_password(settings.store)
    if shown != ours:
        yield Finding(
            "app", WARN, f"the app submits to {shown}, a node would run on {ours}",
            "Name one store for both: SUPERVISOR_STORE, or `store` in supervisor.toml.",
        )  # fmt: skip
    elif their_queue != settings.queue:
        shown, ours = without_password(their_queue), without_password(settings.queue)
        yield Finding(
            "app", WARN, f"the app rings at {shown}, a node would listen at {ours}",
            "Name one doorbell for both: SUPERVISOR_QUEUE, or `queue` in supervisor.toml; until "
            "then the node finds new tasks by looking.",
        )  # fmt: skip


def _no_place(about: str, folder: Path, flag: str, code: int) -> Finding:
    remedy = f"Choose another place with {flag}."
    return Finding(about, FAIL, f"{folder} cannot be written", remedy, code)


def _writable(folder: Path) -> bool:
    """Say whether files can be made in a folder that may not exist yet."""
    from supervisor.store import is_present

    nearest = next(path for path in (folder, *folder.parents) if is_present(path))
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
