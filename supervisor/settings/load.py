"""Where the value of a setting comes from: flag, else environment, else TOML file, else the App.

Invariants: every problem of every source is found before anything is refused, and each names the
setting, the source and what is accepted. Reads the file it is given and nothing else.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from supervisor.errors import ConfigError, Problem
from supervisor.model.spec import NO_SOFT_TIMEOUT, shorten
from supervisor.settings.kind import OR_NONE
from supervisor.settings.limits import SCOPED
from supervisor.settings.line import Setting, table
from supervisor.settings.table import Settings

ENV_PREFIX = "SUPERVISOR_"
#: Variables of this prefix that are no settings: ours, and those that supervisord gives children.
FOREIGN_ENV = frozenset(
    {"CONFIG", "ENABLED", "PROCESS_NAME", "GROUP_NAME", "SERVER_URL", "NODE", "WORKER", "ATTEMPT"}
)
_TYPO_CUTOFF = 0.8  # a foreign variable must look very much like a setting to be called a typo


@dataclass(slots=True)
class _Reading:
    """What has been read so far, and what was wrong with it."""

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def take(self, setting: Setting, raw: object, source: str) -> None:
        if setting.name in self.values:
            return
        try:
            self.values[setting.name] = setting.kind.parse(raw)
        except (ValueError, TypeError, OverflowError):
            self.problems.append(_refusal(setting, raw, source))
        self.sources[setting.name] = source

    def unknown(self, name: str, source: str, known: Iterable[str]) -> None:
        near = difflib.get_close_matches(name, list(known), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        self.problems.append(Problem(name, f"is not a setting ({source}){hint}"))


def load_settings(
    flags: Mapping[str, object],
    env: Mapping[str, str],
    toml_path: Path | None = None,
    app: Mapping[str, object] | None = None,
) -> Settings:
    """Read all sources and return the settings; a flag of None was not given.

    `app` holds what the program's own `App(...)` says: it stands above the defaults only.
    Raises: ConfigError with every problem found; its fact `problems` lists them.
    """
    known = {setting.name: setting for setting in table()}
    reading = _Reading()
    document = _read_toml(toml_path, reading)
    _take_flags(reading, known, flags)
    _take_env(reading, known, env)
    _take_table(reading, known, document.get("supervisor", {}), f"{toml_path} [supervisor]")
    queue_tables = _take_scopes(reading, known, document, "queue", toml_path)
    type_tables = _take_scopes(reading, known, document, "type", toml_path)
    _take_table(reading, known, app or {}, "App(...)")
    _check_soft(reading.values, "soft_timeout", reading.problems)
    if reading.problems:
        raise config_error(reading.problems)
    return Settings(
        **reading.values,
        queue_tables=queue_tables,
        type_tables=type_tables,
        sources=MappingProxyType(reading.sources),
    )


def toml_from(env: Mapping[str, str]) -> Path | None:
    """Return the TOML file to read: SUPERVISOR_CONFIG, else supervisor.toml here if it exists."""
    named = env.get(f"{ENV_PREFIX}CONFIG")
    if named:
        return Path(named)
    here = Path("supervisor.toml")
    return here if here.is_file() else None


def check_values(
    given: Mapping[str, object], source: str, *, scoped: bool = False
) -> dict[str, Any]:
    """Read values that a program gives in its own code; None is the value `none`, if it takes one.

    Raises: ConfigError naming every bad one. `scoped` allows only what a type may set.
    """
    known = {s.name: s for s in table() if s.scoped or not scoped}
    reading = _Reading()
    for name, raw in given.items():
        if name not in known:
            reading.unknown(name, source, known)
        elif raw is None and not known[name].kind.accepted.endswith(OR_NONE):
            reading.problems.append(Problem(name, f"cannot be None ({source}): leave it out"))
        else:
            reading.take(known[name], raw, source)
    _check_soft(reading.values, "soft_timeout", reading.problems)
    if reading.problems:
        raise config_error(reading.problems)
    return reading.values


def config_error(problems: list[Problem]) -> ConfigError:
    """Make one error of all that is wrong with the configuration."""
    return ConfigError(
        "; ".join(str(problem) for problem in problems),
        remedy="Correct the named settings; `supervisor config` shows every setting and its "
        "source, docs/settings.md what each accepts.",
        problems=[str(problem) for problem in problems],
    )


def _take_flags(
    reading: _Reading, known: Mapping[str, Setting], flags: Mapping[str, object]
) -> None:
    for name, raw in flags.items():
        if name not in known:
            reading.unknown(name, "flag", known)
        elif raw is not None:
            reading.take(known[name], raw, f"flag {known[name].flag}")


def _take_env(reading: _Reading, known: Mapping[str, Setting], env: Mapping[str, str]) -> None:
    for variable, raw in env.items():
        if not variable.startswith(ENV_PREFIX):
            continue
        name = variable.removeprefix(ENV_PREFIX)
        setting = known.get(name.lower()) if name.isupper() else None
        if setting is not None:
            reading.take(setting, raw, f"environment {variable}")
        elif name not in FOREIGN_ENV and _looks_like(name.lower(), known):
            reading.unknown(name.lower(), f"environment {variable}", known)


def _looks_like(name: str, known: Iterable[str]) -> bool:
    return bool(difflib.get_close_matches(name, list(known), n=1, cutoff=_TYPO_CUTOFF))


def _take_table(
    reading: _Reading, known: Mapping[str, Setting], given: object, source: str
) -> None:
    if not isinstance(given, Mapping):
        reading.problems.append(Problem(source, "must be a table", shorten(given)))
        return
    for name, raw in given.items():
        if name in known:
            reading.take(known[name], raw, source)
        else:
            reading.unknown(name, source, known)


def _take_scopes(
    reading: _Reading,
    known: Mapping[str, Setting],
    document: Mapping[str, Any],
    scope: str,
    toml_path: Path | None,
) -> Mapping[str, Mapping[str, Any]]:
    scoped = {name: known[name] for name in SCOPED}
    tables: dict[str, Mapping[str, Any]] = {}
    given = document.get(scope, {})
    if not isinstance(given, Mapping):
        reading.problems.append(
            Problem(f"{toml_path} [{scope}]", "must be a table", shorten(given))
        )
        return {}
    for name, values in given.items():
        inner = _Reading(problems=reading.problems)
        _take_table(inner, scoped, values, f"{toml_path} [{scope}.{name}]")
        _check_soft(inner.values, f"[{scope}.{name}] soft_timeout", reading.problems)
        tables[name] = MappingProxyType(inner.values)
    return MappingProxyType(tables)


def _check_soft(values: Mapping[str, Any], path: str, problems: list[Problem]) -> None:
    soft, hard = values.get("soft_timeout"), values.get("timeout")
    if soft not in (None, NO_SOFT_TIMEOUT) and hard is not None and soft >= hard:
        problems.append(Problem(path, f"must be below timeout ({hard:g})", f"{soft:g}"))


def _read_toml(toml_path: Path | None, reading: _Reading) -> Mapping[str, Any]:
    if toml_path is None:
        return {}
    try:
        with toml_path.open("rb") as file:
            document = tomllib.load(file)
    except (OSError, ValueError) as exc:
        reading.problems.append(Problem(str(toml_path), f"could not be read: {exc}"))
        return {}
    for name in document.keys() - {"supervisor", "queue", "type"}:
        reading.problems.append(
            Problem(
                f"{toml_path} [{name}]",
                "is not read; the tables are [supervisor], [queue.NAME] and [type.NAME]",
            )
        )
    return document


def _refusal(setting: Setting, raw: object, source: str) -> Problem:
    veiled = setting.kind.shown(raw)
    given = "" if veiled == "" and raw != "" else shorten(veiled)
    return Problem(setting.name, f"must be {setting.kind.accepted} ({source})", given)
