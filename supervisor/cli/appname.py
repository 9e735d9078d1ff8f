"""How an app is named on the command line: a module that Python imports, not a file."""

from __future__ import annotations

from pathlib import PurePath

import click

from supervisor.errors import ConfigError


def app_name(_: click.Context, __: click.Parameter, given: str | None) -> str | None:
    """Let a name of an app pass. Raises: ConfigError naming the module of a file."""
    if given is None:
        return None
    place, _mark, attribute = given.partition(":")
    if not place.endswith(".py") and "/" not in place:
        return given
    module = ".".join(PurePath(place.removesuffix(".py")).parts).strip("./")
    raise ConfigError(
        f"{place} is a file",
        remedy=f"Name the module, not the file: `{module}:{attribute or 'app'}`, from the "
        "directory that Python finds it in.",
    )
