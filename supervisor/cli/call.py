"""What every command shares: --json, --store, --config, and the way to settings, store and client.

Secret kept here: when a store may be created. Reading commands never do it; `submit`, `run`,
`demo` and `db upgrade` may. The store is closed when the command is over.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from supervisor.model.spec import NO_SOFT_TIMEOUT
from supervisor.settings import Settings, load_settings, toml_from

if TYPE_CHECKING:
    from supervisor.client import Client

F = TypeVar("F", bound=Callable[..., Any])


class Call:
    """One run of a command."""

    def __init__(self, *, as_json: bool, flags: Mapping[str, object], config: str | None) -> None:
        self.as_json = as_json
        self._flags = flags
        self._config = config
        self._settings: Settings | None = None
        self._client: Client | None = None

    @property
    def settings(self) -> Settings:
        """The settings in force for this command."""
        if self._settings is None:
            self._settings = self.reload()
        return self._settings

    def reload(self, app: Mapping[str, object] | None = None) -> Settings:
        """Read all sources again, over what the app itself names."""
        path = Path(self._config) if self._config else toml_from(os.environ)
        return load_settings(self._flags, os.environ, path, app)

    def client(self) -> Client:
        """The client; it opens the store when it is first used."""
        if self._client is None:
            from supervisor.client import Client

            self._client = Client(self.settings)
        return self._client

    def close(self) -> None:
        """Close what was opened."""
        if self._client is not None:
            self._client.close()

    def answer(self, document: object, lines: Callable[[], Iterable[str]]) -> None:
        """Print the answer: the document with --json, else its lines for people."""
        if self.as_json:
            click.echo(json.dumps(document, ensure_ascii=False, default=jsonable))
        else:
            for line in lines():
                click.echo(line, color=colored())


def command(
    name: str | None = None,
    *,
    example: str,
    group: click.Group | None = None,
    own_store: bool = False,
    json_help: str = "Answer in JSON.",
) -> Callable[[F], click.Command]:
    """Make a function a command with the shared flags; its first parameter is the Call.

    Returning an int sets the exit code. The docstring is the help, the example its last lines.
    With `own_store` it takes no --store and --config, which it would have to ignore.
    """

    def wrap(function: F) -> click.Command:
        @functools.wraps(function)
        def run(
            *, as_json: bool, store: str | None = None, config: str | None = None, **rest: Any
        ) -> Any:
            settings = rest.pop("setting_flags", {})
            call = Call(as_json=as_json, flags={"store": store, **settings}, config=config)
            try:
                return function(call, **rest)
            finally:
                call.close()

        prose = inspect.cleandoc(function.__doc__ or "")
        body = f"{prose}\n\n\b\nExample:\n  {example}"
        made = (group or click).command(name, help=body, short_help=prose.split("\n")[0])(run)
        made.params += [] if own_store else _places()
        made.params.append(click.Option(["as_json", "--json"], is_flag=True, help=json_help))
        return made

    return wrap


def _places() -> list[click.Parameter]:
    return [
        click.Option(["--store"], metavar="URL", help="Store, if not the configured one."),
        click.Option(
            ["--config"], metavar="FILE", help="TOML file with [supervisor] and its tables."
        ),
    ]


def signed(default: str | None = None) -> Callable[[F], F]:
    """Add --reason and --by, which stand in the audit trail and may not be blank."""

    def add(function: F) -> F:
        given: dict[str, Any] = (  # a default of None would be one too
            {"required": True} if default is None else {"default": default, "show_default": True}
        )
        reason = click.option(
            "--reason", callback=_not_blank, help="Why; it stands in the audit trail.", **given
        )
        by = click.option("--by", callback=_not_blank, help="Who asks. [default: your user name]")
        return reason(by(function))

    return add


def _not_blank(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not value.strip():
        raise click.BadParameter("it is blank: it stands in the audit trail", param=parameter)
    return value


def colored() -> bool:
    """Whether to colour: only on a terminal, and not against NO_COLOR."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def jsonable(value: object) -> object:
    """Write what JSON does not know: times as ISO 8601, dataclasses as objects.

    What the store keeps as text of JSON (`…_json`) is given as its value.
    """
    from dataclasses import fields, is_dataclass
    from datetime import datetime

    if isinstance(value, datetime):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _value(f.name, getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


def _value(name: str, value: object) -> object:
    if name.endswith("_json") and isinstance(value, str):
        return json.loads(value)
    return worded(value)


def worded(value: object) -> object:
    """Write a limit that never comes as the word it was given by: JSON has no infinity."""
    return "none" if value == NO_SOFT_TIMEOUT else value


def fields_of(value: object) -> dict[str, object]:
    """Return a dataclass as its JSON object, to add to."""
    document = jsonable(value)
    assert isinstance(document, dict)
    return document


def os_user() -> str:
    """Return who runs this command, for the audit."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without an entry in /etc/passwd
        return f"uid:{os.getuid()}"
