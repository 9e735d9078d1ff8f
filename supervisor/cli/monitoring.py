"""`supervisor rules export` and `supervisor dashboards export`: the files that watch over a node.

What they write is made by supervisor/monitoring from data; nothing is asked of a store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from supervisor.cli.call import Call, command
from supervisor.cli.given import Address, Hook, Limit

if TYPE_CHECKING:
    from supervisor.monitoring.threshold import Thresholds

BASE = Address(is_base=True)


@click.group()
def rules() -> None:
    """Write the rules and routes for Prometheus and Alertmanager."""


@command(
    "export",
    group=rules,
    own_store=True,
    example="supervisor rules export /etc/prometheus/supervisor --grafana-url https://grafana.internal",
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--web-url", type=BASE, metavar="URL", help="Base of links to autopsies. [default: this host]"
)
@click.option(
    "--grafana-url",
    type=BASE,
    metavar="URL",
    help="Base of links to dashboards. [default: this host]",
)
@click.option(
    "--runbook-url",
    type=BASE,
    metavar="URL",
    help="Where the runbooks are served. [default: docs/runbooks, as in the source]",
)
@click.option(
    "--receiver",
    "receivers",
    type=Hook(),
    metavar="NAME=URL",
    multiple=True,
    help="The web hook of pager, sms, chat, product or deadman; may be repeated.",
)
@click.option(
    "--token-file",
    metavar="FILE",
    default="",
    help="A bearer token that Alertmanager reads for all receivers but chat.",
)
@click.option(
    "--web-token-file",
    metavar="FILE",
    default="",
    help="A token of role teller, with which Alertmanager tells the pages.",
)
@click.option(
    "--web-hook-url",
    type=BASE,
    metavar="URL",
    help="Where Alertmanager reaches the pages. [default: as --web-url]",
)
@click.option(
    "--threshold",
    "thresholds",
    type=Limit(),
    metavar="NAME=NUMBER",
    multiple=True,
    help="Another limit, such as failed_rate=0.1; may be repeated.",
)
@click.option("--force", is_flag=True, help="Replace files that this command has not written.")
def rules_export(
    call: Call,
    folder: Path,
    *,
    web_url: str | None,
    grafana_url: str | None,
    runbook_url: str | None,
    receivers: tuple[tuple[str, str], ...],
    token_file: str,
    web_token_file: str,
    web_hook_url: str | None,
    thresholds: tuple[tuple[str, float], ...],
    force: bool,
) -> None:
    """Write recording rules, alerts, Alertmanager's file and the runbooks into a folder.

    Files that this command has written before are replaced, others are not.
    """
    from supervisor.monitoring import export
    from supervisor.monitoring.alertmanager import Receivers
    from supervisor.monitoring.rule import Links

    given = {"web": web_url, "grafana": grafana_url, "runbooks": runbook_url}
    links = Links(**{name: url for name, url in given.items() if url})
    files = export.texts(
        links,
        _thresholds(thresholds),
        Receivers(
            urls=dict(receivers),
            token_file=token_file,
            pages=(web_hook_url or links.web) if web_token_file else "",
            pages_token_file=web_token_file,
        ),
    )
    done = export.write(folder, files, force=force)

    def lines() -> Iterator[str]:
        yield from _written(folder, done)
        yield from _how_to_load(folder.resolve(), export.RULE_FILES, export.ALERTMANAGER_FILE)

    call.answer({"folder": str(folder.resolve()), "files": done}, lines)


@click.group()
def dashboards() -> None:
    """Write the dashboards for Grafana."""


@command(
    "export",
    group=dashboards,
    own_store=True,
    example="supervisor dashboards export /var/lib/grafana/dashboards --threshold failed_rate=0.1",
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--web-url", type=BASE, metavar="URL", help="Base of links to autopsies. [default: this host]"
)
@click.option(
    "--runbook-url",
    type=BASE,
    metavar="URL",
    help="Where the runbooks are served. [default: no link]",
)
@click.option(
    "--threshold",
    "thresholds",
    type=Limit(),
    metavar="NAME=NUMBER",
    multiple=True,
    help="A limit that was given to `supervisor rules export`, too: lines are drawn at it.",
)
@click.option("--force", is_flag=True, help="Replace files that this command has not written.")
def dashboards_export(
    call: Call,
    folder: Path,
    *,
    web_url: str | None,
    runbook_url: str | None,
    thresholds: tuple[tuple[str, float], ...],
    force: bool,
) -> None:
    """Write the dashboards into a folder that Grafana reads, or to import them by hand.

    Files that this command has written before are replaced, others are not.
    """
    from supervisor.monitoring import export
    from supervisor.monitoring.dashboards import files
    from supervisor.monitoring.rule import Links

    given = {"web": web_url, "runbooks": runbook_url}
    links = Links(**{name: url for name, url in given.items() if url})
    done = export.write(folder, files(links, _thresholds(thresholds)), force=force)

    def lines() -> Iterator[str]:
        yield from _written(folder, done)
        yield from _how_to_show(folder.resolve())

    call.answer({"folder": str(folder.resolve()), "files": done}, lines)


def _thresholds(given: tuple[tuple[str, float], ...]) -> Thresholds:
    from supervisor.monitoring.threshold import Thresholds

    return Thresholds().changed(dict(given))


def _written(folder: Path, done: Mapping[str, str]) -> Iterator[str]:
    for name, what in done.items():
        if not name.startswith("runbooks/"):
            yield f"{what:<9}  {folder / name}"
    books = [what for name, what in done.items() if name.startswith("runbooks/")]
    if books:
        changed = sum(what != "unchanged" for what in books)
        yield f"runbooks   {folder / 'runbooks'}: {len(books)}, {changed} of them new or changed"


def _how_to_load(folder: Path, rule_files: tuple[str, ...], alertmanager: str) -> Iterator[str]:
    yield from ("", "In prometheus.yml, then `kill -HUP` it or POST to /-/reload:", "")
    yield from ("  rule_files:", *(f"    - {folder / name}" for name in rule_files))
    yield from (
        "  alerting:",
        "    alertmanagers: [{static_configs: [{targets: ['127.0.0.1:9093']}]}]",
    )
    yield from ("  scrape_configs:", "    - job_name: supervisor    # the alerts ask for this name")
    yield "      scrape_interval: 15s"
    yield "      static_configs: [{targets: ['127.0.0.1:9464']}]    # metrics_listen of each node"
    yield from ("", f"Alertmanager: --config.file={folder / alertmanager}")
    yield "Try both first: promtool check rules …, amtool check-config …"


def _how_to_show(folder: Path) -> Iterator[str]:
    yield from ("", "In a file below provisioning/dashboards of Grafana (10 to 13):", "")
    yield from ("  apiVersion: 1", "  providers:", "    - name: task-supervisor")
    yield from ("      type: file", f"      options: {{path: {folder}}}", "")
    yield "Set the scrape interval of its Prometheus data source to that of the job: rates need it."
