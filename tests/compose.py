"""docker-compose.yml as compose reads it: anchors merged, variables filled in. No engine needed.

Secret kept here: the rules of `${NAME:-default}` and `${NAME:?message}`, of durations and sizes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

REPOSITORY = Path(__file__).parents[1]
FILE = REPOSITORY / "docker-compose.yml"
EXAMPLE = REPOSITORY / "deploy" / "env.example"

_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?:(:-|:\?)([^{}]*))?\})")
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_UNITS_BYTES = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30}

Service = dict[str, Any]


class VariableMissing(Exception):
    """A variable without which compose refuses to start has no value."""


def raw() -> dict[str, Any]:
    """Return the file with anchors merged and variables as they stand; doubled keys are refused."""
    read: dict[str, Any] = YAML(typ="safe").load(FILE)
    return read


def services(variables: Mapping[str, str]) -> dict[str, Service]:
    """Return the services with variables filled in. Raises VariableMissing."""
    filled: dict[str, Service] = _fill(raw()["services"], variables)
    return filled


def variables() -> dict[str, str]:
    """Return the variables that the file reads, with what follows the name."""
    return {
        found[2]: (found[3] or "") + (found[4] or "")
        for found in _VARIABLE.finditer(FILE.read_text("utf-8"))
        if found[2]
    }


def seconds(text: str) -> float:
    """Read a duration such as 1m30s."""
    parts = re.findall(r"(\d+)(ms|s|m|h)", text)
    assert "".join(map("".join, parts)) == text, text
    return sum(int(number) * _UNITS_S[unit] for number, unit in parts)


def size(text: str) -> int:
    """Read a size such as 512m, in bytes."""
    number, unit = re.fullmatch(r"(\d+)([bkmg]?)b?", text.lower()).groups()
    return int(number) * _UNITS_BYTES[unit]


def mounts(service: Service) -> list[tuple[str, str, bool]]:
    """Return (source, target, is read-only) of each volume, all of which are written shortly."""
    split = [volume.split(":") for volume in service.get("volumes", [])]
    return [(source, target, options == ["ro"]) for source, target, *options in split]


def _fill(value: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _fill(inner, variables) for key, inner in value.items()}
    if isinstance(value, list):
        return [_fill(inner, variables) for inner in value]
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _value(found, variables), value)
    return value


def _value(found: re.Match[str], variables: Mapping[str, str]) -> str:
    dollar, name, operator, rest = found.groups()
    if dollar:
        return "$"
    if given := variables.get(name):
        return given
    if operator != ":-":
        raise VariableMissing(f"{name}: {rest}")
    return str(rest)
