"""`supervisor demo`: the product at work on a throw-away store."""

from __future__ import annotations

import click

from supervisor.cli.call import Call, command
from supervisor.cli.flags import with_flags_of


@with_flags_of("workers", "spawn", "metrics_listen", "web_listen")
@command(example="supervisor demo --for 20 --json", own_store=True)
@click.option(
    "for_s",
    "--for",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="Stop after this long; without it, run until interrupted.",
)
@click.option(
    "--live",
    is_flag=True,
    help="Keep working, as a shop with six queues would, and show what happens to it.",
)
def demo(call: Call, for_s: float | None, *, live: bool) -> int:
    """Show it at work: healthy, flaky, slow, deadlocked, leaking and blocked tasks.

    Everything lives in a temporary directory, with settings of its own. With --for and --json it
    prints one summary and exits 0 only if no process is left behind. With --live tasks of all
    endings keep coming, with cancels, kills, pauses and reruns now and then, for whoever wants to
    see pages, metrics and dashboards alive.
    """
    from supervisor.demo import run_demo, run_live

    return (run_live if live else run_demo)(for_s, call.as_json, call.settings)
