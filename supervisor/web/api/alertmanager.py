"""Alerts: what Alertmanager tells, taken in; and the same, listed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from supervisor.model.access import Right
from supervisor.store.alerts import AlertView
from supervisor.store.ledger.alerts import Telling
from supervisor.web.api.endpoint import READ, WRITE, Endpoint, Moment, Nothing, wrong
from supervisor.web.visit import Visit

#: Some thousand alerts; Alertmanager does not repeat what was refused as too large.
BODY_MAX = 4 * 1024 * 1024
PAGE_MAX = 500
_MOST = 10_000
Texts = dict[str, str]
Fingerprint = Annotated[str, Meta(pattern="^[0-9a-f]{1,64}$")]


class ToldAlert(msgspec.Struct, kw_only=True):
    """One alert of a delivery; further members are ignored."""

    status: Literal["firing", "resolved"]
    labels: Texts
    annotations: Texts = {}
    starts_at: Moment = msgspec.field(name="startsAt")
    ends_at: Moment | None = msgspec.field(name="endsAt", default=None)
    fingerprint: Fingerprint


class Delivery(msgspec.Struct, kw_only=True):
    """What Alertmanager sends to a webhook; further members are ignored."""

    alerts: Annotated[list[ToldAlert], Meta(max_length=_MOST)]


class Taken(msgspec.Struct):
    """How many alerts there were, and of how many something is another now."""

    alerts: int
    changed: int


class AlertsWanted(msgspec.Struct, kw_only=True):
    """Which alerts to list."""

    firing: Annotated[bool, Meta(description="Only those whose end nobody has told.")] = False
    before: Annotated[
        str, Meta(max_length=120, description="`next` of the page before; empty for the first.")
    ] = ""
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX, description="Alerts of a page, at most.")] = 50


class Alert(msgspec.Struct, kw_only=True):
    """One time that an alert fired. `ends_at` is null while nobody has told that it is over."""

    fingerprint: str
    name: str
    severity: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    starts_at: Moment
    ends_at: Moment | None
    received_at: Moment


class Alerts(msgspec.Struct):
    """One page of alerts, newest first. `next` is the `before` of the next, null at the end."""

    alerts: list[Alert]
    next: str | None


def take_alerts(visit: Visit, _: Nothing, body: Mapping[str, Any]) -> Taken:
    """Take a delivery of Alertmanager's webhook.

    Sent again, or later than another, it changes nothing that is known better. It needs a token of
    role teller, or of an admin.
    """
    told = [_telling(one) for one in _delivery(body).alerts]
    return Taken(len(told), visit.client.take_alerts(told))


def list_alerts(visit: Visit, query: AlertsWanted, _: None) -> Alerts:
    """List what fires and has fired, newest first."""
    at, of = continued(query.before)
    found = visit.client.alerts.find(at, of, query.limit, firing=query.firing)
    following = None
    if found.next_at is not None:
        following = f"{found.next_at.isoformat()},{found.next_of}"
    return Alerts([_alert(one) for one in found.alerts], following)


def continued(before: str) -> tuple[datetime | None, str]:
    """Read where a page goes on. Raises: Trouble."""
    if not before:
        return None, ""
    at, _, of = before.rpartition(",")
    try:
        moment = datetime.fromisoformat(at)
        if moment.tzinfo is None:
            raise ValueError(at)
        return moment.astimezone(UTC), of
    except (ValueError, OverflowError) as exc:
        raise wrong("before", "is not the `next` of a page") from exc


def _delivery(body: Mapping[str, Any]) -> Delivery:
    """Read a delivery; texts may hold anything, since what is refused is not sent again."""
    try:
        return msgspec.convert(body, Delivery)
    except msgspec.ValidationError as exc:
        raise wrong("alerts", str(exc)) from exc


def _telling(told: ToldAlert) -> Telling:
    is_over = told.status == "resolved"
    ends_at = (told.ends_at or told.starts_at) if is_over else None
    return Telling(
        fingerprint=told.fingerprint,
        starts_at=_utc(told.starts_at),
        ends_at=None if ends_at is None else _utc(ends_at),
        name=told.labels.get("alertname", ""),
        severity=told.labels.get("severity", ""),
        labels=told.labels,
        annotations=told.annotations,
    )


def _utc(moment: datetime) -> datetime:
    """Return a time in UTC. Raises: Trouble where there is none."""
    try:
        if moment.tzinfo is None:
            raise ValueError
        return moment.astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise wrong("alerts", "a time is without an offset, or before or after all years") from exc


def _alert(one: AlertView) -> Alert:
    return Alert(**{name: getattr(one, name) for name in Alert.__struct_fields__})


ENDPOINTS = (
    Endpoint(
        method=WRITE, rule="/alertmanager", function=take_alerts, needs=Right.TELL,
        body=Delivery, body_max=BODY_MAX, answer=Taken, checked=False,
    ),
    Endpoint(
        method=READ, rule="/alerts", function=list_alerts, needs=Right.TASKS,
        query=AlertsWanted, answer=Alerts,
    ),
)  # fmt: skip
