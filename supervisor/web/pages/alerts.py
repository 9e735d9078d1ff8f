"""The page of alerts: what fires now, what has fired, and where each of them leads.

Invariants: an alert that is not repeated any more is not claimed to fire; a link of an alert leads
to a web address or nowhere; what they say is text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, urlsplit

from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from werkzeug.exceptions import BadRequest

from supervisor.model.access import Right
from supervisor.monitoring.alertmanager import PAGES_PATH, PAGES_SILENT_S
from supervisor.store.alerts import AlertView
from supervisor.web import wording
from supervisor.web.scene import WATCHDOG
from supervisor.web.visit import Answer, Room, Route, Visit, argument, show

PAGE = 50
#: Alerts that are shown as firing, the newest; how many there are is told.
FIRING_SHOWN = 50
#: Labels that stand elsewhere on the page.
_SAID = frozenset({"alertname", "severity"})
_LATEST = "/autopsies/latest"


@dataclass(frozen=True, slots=True)
class Link:
    """Where an alert leads: a path of ours, or a whole address."""

    label: str
    href: str
    is_ours: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """An alert as the page shows it; `silent_for` is how long it was not repeated, if too long."""

    alert: AlertView
    links: tuple[Link, ...]
    silent_for: timedelta | None

    @property
    def labels(self) -> Iterator[tuple[str, str]]:
        """What tells it from others of its name."""
        return ((n, v) for n, v in sorted(self.alert.labels.items()) if n not in _SAID)

    @property
    def said(self) -> str:
        """What it says of itself."""
        return self.alert.annotations.get("summary") or self.alert.annotations.get("message", "")


def page(visit: Visit) -> Answer:
    """Return what fires, and one page of what has fired."""
    now = visit.now()
    book = visit.client.alerts
    before_at, before_of = _before()
    found = book.find(before_at, before_of, PAGE)
    fires = book.firing()
    watchdog = next((one for one in fires if one.name == WATCHDOG), None)
    firing = [one for one in fires if one.name != WATCHDOG]
    more = None
    if found.next_at is not None:
        parts = [("before", found.next_at.isoformat()), ("of", found.next_of or "")]
        more = wording.query(parts)
    return show(
        "alerts.html",
        visit,
        now=now,
        firing=[_shown(visit, one, now) for one in firing[:FIRING_SHOWN]],
        left_out=max(0, len(firing) - FIRING_SHOWN),
        watchdog=None if watchdog is None else _shown(visit, watchdog, now),
        alerts=[_shown(visit, one, now) for one in found.alerts if one.name != WATCHDOG],
        more=more,
        is_first=before_at is None,
        is_told=bool(found.alerts) or book.has_any(),
        path=PAGES_PATH,
    )


def _before() -> tuple[datetime | None, str]:
    given = argument("before")
    if not given:
        return None, ""
    try:
        moment = datetime.fromisoformat(given)
        if moment.tzinfo is None:
            raise ValueError(given)
        return moment.astimezone(UTC), argument("of")
    except (ValueError, OverflowError) as exc:
        raise BadRequest(_("A page continues before an alert of the page before it.")) from exc


def _shown(visit: Visit, alert: AlertView, now: datetime) -> Shown:
    silent = now - alert.received_at
    is_silent = alert.ends_at is None and silent > timedelta(seconds=PAGES_SILENT_S)
    return Shown(alert, tuple(_links(visit, alert)), silent if is_silent else None)


def _links(visit: Visit, alert: AlertView) -> Iterator[Link]:
    said = alert.annotations
    if tasks := _tasks(alert.labels):
        yield Link(_("Its tasks"), f"/tasks?{tasks}", is_ours=True)
    autopsy = urlsplit_or_none(said.get("autopsy_url", ""))
    if autopsy is not None and autopsy[0].endswith(_LATEST) and visit.may(Right.AUTOPSIES):
        wanted = [(n, v) for n, v in parse_qsl(autopsy[1]) if n in ("type", "verdict")]
        yield Link(_("Newest autopsy"), f"{_LATEST}?{wording.query(wanted)}", is_ours=True)
    for name, label in (("runbook_url", _("Runbook")), ("dashboard_url", _("Dashboard"))):
        if is_web_address(said.get(name, "")):
            yield Link(label, said[name], is_ours=False)


def _tasks(labels: Mapping[str, str]) -> str:
    """Return the query of the tasks that an alert is about; '' where its labels name none."""
    named = [(name, labels.get(name, "")) for name in ("type", "queue")]
    states = [("state", "PENDING"), ("state", "RUNNING")] if any(v for _, v in named) else []
    return wording.query([*states, *named])


def urlsplit_or_none(given: str) -> tuple[str, str] | None:
    """Return path and query of an address; None where it is none."""
    try:
        parts = urlsplit(given)
    except ValueError:
        return None
    return parts.path, parts.query


def is_web_address(given: str) -> bool:
    """Say whether a browser may be sent there: to http and https alone, and all of it shows."""
    try:
        parts = urlsplit(given)
    except ValueError:
        return False
    is_whole = parts.scheme in ("http", "https") and bool(parts.netloc)
    return is_whole and given.isprintable() and " " not in given


ROOM = Room("alerts", _l("Alerts"), Right.TASKS, "l")
ROUTES = (Route("alerts", "/alerts", page, Right.TASKS),)
