"""`supervisor config`: every setting in force, with its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from supervisor.cli.call import Call, command, worded
from supervisor.cli.flags import with_setting_flags
from supervisor.cli.text import cell, columns
from supervisor.settings import Setting, Settings, show, table


@with_setting_flags
@command(example="SUPERVISOR_TIMEOUT=120 supervisor config --workers 4")
def config(call: Call) -> None:
    """Show every setting in force and where it comes from.

    Precedence: flag, environment SUPERVISOR_<NAME>, TOML file, default.
    """
    settings = call.settings
    entries = [
        {
            "name": setting.name,
            "value": _open_value(setting, settings),
            "shown": _shown(setting, settings),
            "unit": setting.kind.unit,
            "source": settings.source_of(setting.name),
        }
        for setting in table()
    ]
    scopes = {
        "queue": _worded(settings.queue_tables),
        "type": _worded(settings.type_tables),
    }

    def lines() -> Iterator[str]:
        rows = [(cell(e["name"]), cell(e["shown"], 90), cell(e["source"], 90)) for e in entries]
        yield from columns(("SETTING", "VALUE", "SOURCE"), rows)
        for scope, tables in scopes.items():
            for name, values in tables.items():
                shown = ", ".join(f"{key} = {show(value)}" for key, value in values.items())
                yield f"[{scope}.{name}] {shown}"

    document = {
        "settings": {
            e["name"]: {"value": worded(e["value"]), "source": e["source"], "unit": e["unit"]}
            for e in entries
        },
        **scopes,
    }
    call.answer(document, lines)


def _open_value(setting: Setting, settings: Settings) -> object:
    return setting.kind.shown(getattr(settings, setting.name))


def _shown(setting: Setting, settings: Settings) -> str:
    text = show(_open_value(setting, settings), setting.kind.unit)
    return text if text == "none" or setting.kind.unit != "s" else f"{text} s"


def _worded(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, object]]:
    return {
        name: {key: worded(value) for key, value in values.items()}
        for name, values in tables.items()
    }
