"""Flags made from the settings table, so that a setting is declared in one place only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from supervisor.settings import Setting, table

#: Shared by every command already, or of no meaning but to `supervisor web`.
_ELSEWHERE = frozenset({"store", "web_listen", "web_proxies"})


def with_setting_flags(command: click.Command) -> click.Command:
    """Add one flag for each setting; what was given arrives as `setting_flags`."""
    return _with_flags(command, [one for one in table() if one.name not in _ELSEWHERE])


def with_flags_of(*names: str) -> Callable[[click.Command], click.Command]:
    """Add the flags of these settings only."""
    return lambda command: _with_flags(command, [one for one in table() if one.name in names])


def _with_flags(command: click.Command, settings: Sequence[Setting]) -> click.Command:
    names = [setting.name for setting in settings]
    inner: Callable[..., Any] = command.callback or (lambda: None)

    def gather(**given: Any) -> Any:
        flags = {name: given.pop(name) for name in names}
        return inner(setting_flags=flags, **given)

    command.callback = gather
    command.params += [
        click.Option(
            [setting.flag],
            metavar="VALUE",
            help=f"{setting.prose} [default: {setting.default_text}]",
        )
        for setting in settings
    ]
    return command
