"""All dashboards, and their files."""

from __future__ import annotations

from collections.abc import Mapping

from supervisor.monitoring.dashboards.autopsies import autopsies
from supervisor.monitoring.dashboards.dependencies import dependencies
from supervisor.monitoring.dashboards.internals import internals
from supervisor.monitoring.dashboards.model import Dashboard
from supervisor.monitoring.dashboards.overview import overview
from supervisor.monitoring.dashboards.queues import queues
from supervisor.monitoring.dashboards.render import text
from supervisor.monitoring.dashboards.slo import slo
from supervisor.monitoring.dashboards.types import types
from supervisor.monitoring.dashboards.workers import workers
from supervisor.monitoring.rule import Links
from supervisor.monitoring.threshold import Thresholds


def dashboards(alert: Thresholds) -> tuple[Dashboard, ...]:
    """Return all dashboards, their lines at these thresholds."""
    return (
        overview(alert),
        queues(alert),
        types(alert),
        workers(alert),
        dependencies(alert),
        autopsies(),
        slo(alert),
        internals(alert),
    )


def files(links: Links, alert: Thresholds) -> Mapping[str, str]:
    """Return the text of each file by its name."""
    return {f"{board.name}.json": text(board, links) for board in dashboards(alert)}
