"""`supervisor config`: every setting in force, with its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from supervisor.cli.call import Call, command, worded
from supervisor.cli.flags import with_setting_flags
from supervisor.cli.text import cell, columns
from supervisor.words.setting import in_force, scoped


@with_setting_flags
@command(example="SUPERVISOR_TIMEOUT=120 supervisor config --workers 4")
def config(call: Call) -> None:
    """Show every setting in force and where it comes from.

    Precedence: flag, environment SUPERVISOR_<NAME>, TOML file, default.
    """
    settings = call.settings
    entries = in_force(settings)
    scopes = {"queue": settings.queue_tables, "type": settings.type_tables}

    def lines() -> Iterator[str]:
        rows = [(cell(e.name), cell(e.text, 90), cell(e.source, 90)) for e in entries]
        yield from columns(("SETTING", "VALUE", "SOURCE"), rows)
        for scope, tables in scopes.items():
            yield from (f"[{scope}.{name}] {shown}" for name, shown in scoped(tables))

    document = {
        "settings": {
            e.name: {"value": worded(e.value), "source": e.source, "unit": e.unit} for e in entries
        },
        **{scope: _worded(tables) for scope, tables in scopes.items()},
    }
    call.answer(document, lines)


def _worded(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, object]]:
    return {
        name: {key: worded(value) for key, value in values.items()}
        for name, values in tables.items()
    }
