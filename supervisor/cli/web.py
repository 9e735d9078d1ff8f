"""`supervisor web`: the pages, a process of its own."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from supervisor.cli.call import Call, command, os_user
from supervisor.cli.flags import with_flags_of

if TYPE_CHECKING:
    from supervisor.web.server import Opened


@with_flags_of("web_listen", "web_proxies", "queue")
@command(
    example="supervisor web --web-listen 127.0.0.1:8080",
    json_help="Print where it is, and log lines, in JSON.",
)
def web(call: Call) -> int:
    """Serve pages to look at tasks and autopsies, and to step in.

    While there are no users it prints a link with a token that lets you in as yourself, and
    listens on this host only. After `supervisor users add` people sign in with their passwords, and
    it may listen for others. It ends on SIGTERM or Ctrl-C.
    """
    settings = call.settings
    from supervisor.telemetry import logs
    from supervisor.telemetry.outlet import Outlet
    from supervisor.web.server import serve

    outlet = Outlet(sys.stderr)
    logs.configure(outlet, json=True if call.as_json else None)
    try:
        return serve(settings, os_user(), lambda opened: _say(call, opened))
    finally:
        outlet.close(1.0)


def _say(call: Call, opened: Opened) -> None:
    document = {"listen": opened.listen, "url": opened.url, "link": opened.link}
    call.answer(document, lambda: [opened.link or opened.url])
    if opened.link and not call.as_json:
        click.echo("The link lets in whoever has it, as you, until this process ends.", err=True)
