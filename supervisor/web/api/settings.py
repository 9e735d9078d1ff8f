"""Settings in force, and the task types that nodes have announced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from supervisor.model.access import Right
from supervisor.web.api.endpoint import READ, Endpoint, Moment, Nothing
from supervisor.web.visit import Visit
from supervisor.words.setting import in_force


class SettingInForce(msgspec.Struct):
    """One setting of this process: what may be shown of its value, and where that came from."""

    name: str
    value: Any
    source: str
    default: str
    prose: str


class SettingsInForce(msgspec.Struct):
    """All of them, in the order of the documentation; `queues` and `types` have what is set for
    one of these alone.
    """

    settings: list[SettingInForce]
    queues: dict[str, dict[str, Any]]
    types: dict[str, dict[str, Any]]


class TaskType(msgspec.Struct):
    """A task type as a node announced it last; `node_id` is null when that node dropped it."""

    type: str
    queue: str | None
    node_id: str | None
    seen_at: Moment


class TaskTypes(msgspec.Struct):
    """Every type that a node has ever announced, by name."""

    types: list[TaskType]


def list_settings(visit: Visit, _query: Nothing, _body: None) -> SettingsInForce:
    """Show the settings of the web process, without what is secret in them."""
    settings = visit.client.settings
    return SettingsInForce(
        [
            SettingInForce(one.name, _plain(one.value), one.source, one.default, one.prose)
            for one in in_force(settings)
        ],
        _tables(settings.queue_tables),
        _tables(settings.type_tables),
    )


def list_types(visit: Visit, _query: Nothing, _body: None) -> TaskTypes:
    """List task types."""
    found = visit.reader.types()
    return TaskTypes([msgspec.convert(one, TaskType, from_attributes=True) for one in found])


def _tables(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        of: {name: _plain(value) for name, value in values.items()} for of, values in tables.items()
    }


def _plain(value: object) -> Any:
    """Return a value as JSON has it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    return str(value)


ENDPOINTS = (
    Endpoint(
        method=READ, rule="/settings", function=list_settings, needs=Right.ACT,
        answer=SettingsInForce,
    ),
    Endpoint(
        method=READ, rule="/types", function=list_types, needs=Right.TASKS, answer=TaskTypes
    ),
)  # fmt: skip
