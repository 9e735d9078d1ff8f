"""`supervisor run`: hand an app and the settings to a node."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import click

from supervisor.cli.appname import app_name
from supervisor.cli.call import Call, command
from supervisor.cli.flags import with_setting_flags
from supervisor.settings import Settings, config_error, relation_problems

if TYPE_CHECKING:
    from supervisor.telemetry.outlet import Outlet

#: How long the end waits for whoever reads the log.
LAST_LINES_S = 2.0


@with_setting_flags
@command(
    example="supervisor run shop.tasks:app --workers 4",
    json_help="Log lines in JSON, also on a terminal.",
)
@click.argument("app", metavar="MODULE[:app]", callback=app_name)
def run(call: Call, app: str) -> int:
    """Run a node: take tasks of an app and watch over them.

    MODULE is what Python imports, not a file; `:app` may be left out. On SIGTERM or SIGINT
    (Ctrl-C) it takes no more tasks and waits up to drain_grace for those that run; a second one
    asks them for a checkpoint and gives them back to the queue; a third takes evidence and kills
    them. SIGHUP reads settings and app anew. Log lines go to stderr, as JSON when it is no terminal
    or with --json.
    """
    sound(call.settings)
    from supervisor.node.run import run_node  # after the settings: a typo is told in 0.1 s
    from supervisor.telemetry import logs
    from supervisor.telemetry.events import LOGGER
    from supervisor.telemetry.outlet import Outlet

    outlet = Outlet(sys.stderr)
    logs.configure(outlet, json=True if call.as_json else None)
    if outlet.isatty() and not call.as_json:
        logging.getLogger(LOGGER).addHandler(StopWords(outlet))
    try:
        return run_node(app, lambda overrides: sound(call.reload(overrides)))
    finally:
        outlet.close(LAST_LINES_S)


class StopWords(logging.Handler):
    """Tells whoever pressed Ctrl-C what the node waits for, and what the next one does."""

    def __init__(self, outlet: Outlet) -> None:
        super().__init__()
        self._outlet = outlet

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line after the event that a stop has begun."""
        fields = getattr(record, "fields", {})
        if record.msg == "node.stopping" and fields["reason"] == "received SIGINT":
            self._outlet.write(f"{stop_words(fields['running'], fields['grace_s'])}\n")


def stop_words(running: int, grace_s: float) -> str:
    """Say what a stop waits for."""
    if not running:
        return "no task runs: stopping"
    runs, them, ends = (
        ("1 task runs", "it", "a third ends it")
        if running == 1
        else (f"{running} tasks run", "them", "a third ends them")
    )
    return (
        f"{runs}; waiting up to {grace_s:g} s for {them}; "
        f"Ctrl-C again asks {them} for a checkpoint, {ends}"
    )


def sound(settings: Settings) -> Settings:
    """Return settings that also agree with each other.

    Raises: ConfigError naming every rule between them that does not hold.
    """
    problems = relation_problems(settings)
    if problems:
        raise config_error(problems)
    return settings
