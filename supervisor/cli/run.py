"""`supervisor run`: hand an app and the settings to a node."""

from __future__ import annotations

import sys

import click

from supervisor.cli.call import Call, command
from supervisor.cli.flags import with_setting_flags
from supervisor.settings import Settings, config_error, relation_problems

#: How long the end waits for whoever reads the log.
LAST_LINES_S = 2.0


@with_setting_flags
@command(example="supervisor run shop.tasks:app --workers 4")
@click.argument("app", metavar="MODULE:app")
def run(call: Call, app: str) -> int:
    """Run a node: take tasks of an app and watch over them.

    Stops in order on SIGTERM or SIGINT, at once on the second; SIGHUP reads settings and app
    anew. Log lines go to stderr, as JSON when it is no terminal or with --json.
    """
    sound(call.settings)
    from supervisor.node.run import run_node  # after the settings: a typo is told in 0.1 s
    from supervisor.telemetry import logs
    from supervisor.telemetry.outlet import Outlet

    outlet = Outlet(sys.stderr)
    logs.configure(outlet, json=True if call.as_json else None)
    try:
        return run_node(app, lambda overrides: sound(call.reload(overrides)))
    finally:
        outlet.close(LAST_LINES_S)


def sound(settings: Settings) -> Settings:
    """Return settings that also agree with each other.

    Raises: ConfigError naming every rule between them that does not hold.
    """
    problems = relation_problems(settings)
    if problems:
        raise config_error(problems)
    return settings
