"""The settings in force as people read them: value with its unit, where it came from, what it is.

Invariant: what a setting veils (a password in an address, a token) is shown nowhere. The command
line and the pages ask here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from supervisor.settings import Setting, Settings, show, table
from supervisor.words.retold import retold
from supervisor.words.tongue import say


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """One setting: `value` is what may be shown of it, `text` the same for people."""

    name: str
    value: object
    text: str
    unit: str
    source: str
    default: str
    prose: str
    env: str


def in_force(settings: Settings) -> list[InForce]:
    """Return every setting, in the order of the documentation."""
    return [_in_force(setting, settings) for setting in table()]


def scoped(tables: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return what a file says of queues or types, each in a line."""
    return [
        (name, ", ".join(f"{key} = {show(value)}" for key, value in values.items()))
        for name, values in tables.items()
    ]


def _in_force(setting: Setting, settings: Settings) -> InForce:
    value = setting.kind.shown(getattr(settings, setting.name))
    unit = setting.kind.unit
    text = show(value, unit)
    return InForce(
        name=setting.name,
        value=value,
        text=_with_unit(text, unit),
        unit=unit,
        source=settings.source_of(setting.name),
        default=_with_unit(retold(setting.default_text), unit),
        prose=say(setting.prose),
        env=setting.env,
    )


def _with_unit(text: str, unit: str) -> str:
    """Return a number of seconds with its unit; sizes have theirs, and words have none."""
    return f"{text} s" if unit == "s" and text[:1].isdigit() else text
