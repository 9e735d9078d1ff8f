"""Names that a program gives to what its tasks count, step through and call: label values.

Secret kept here: which names are good ones. They end up in queries that people write, so letters,
digits and a few marks will do. Pure: a name is refused in words, and nothing of it is trusted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from supervisor.errors import ConfigError
from supervisor.model.spec import shorten

#: The names that a type declares, by kind: counts, codes, steps, calls.
Words = Mapping[str, tuple[str, ...]]
NO_WORDS: Words = MappingProxyType({})
#: Kinds of names → the argument of the decorator that declares them.
KINDS: Mapping[str, str] = MappingProxyType(
    {"counts": "counts", "codes": "error_codes", "steps": "steps", "calls": "calls"}
)
#: Each declared name has series of its own from the beginning.
DECLARED_MOST = 100
LABEL_MOST = 64
_RULE = f"must be text of 1 to {LABEL_MOST} letters, digits and - . _ : / (none of . _ : / first)"
_LABEL = re.compile(rf"[A-Za-z0-9-][A-Za-z0-9._:/-]{{0,{LABEL_MOST - 1}}}\Z")
#: The longest whole number that is a code.
_CODE_MOST = 10**20


def plain_label(value: object) -> str | None:
    """Return a good name as plain text, None if it is none; a subclass of `str` may hold one."""
    if not isinstance(value, str):
        return None
    text = str.__str__(value)  # whatever its class makes of it
    return text if _LABEL.match(text) else None


def plain_code(value: object) -> str | None:
    """Return a good name or a whole number as plain text, None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        number = int.__index__(value)
        return str(number) if -_CODE_MOST < number < _CODE_MOST else None
    return plain_label(value)


def label_fault(value: object) -> str:
    """Say what is wrong with a name, and show it."""
    return f"{_RULE}, not {shorten(value)}"


def read_words(where: str, given: Mapping[str, object]) -> Words:
    """Return the names that a decorator declares; `given` by argument.

    Raises: ConfigError naming the argument and the name.
    """
    found = {kind: _names(f"{where}: {argument}", kind, given.get(argument, ()))
             for kind, argument in KINDS.items()}  # fmt: skip
    words = {kind: names for kind, names in found.items() if names}
    return MappingProxyType(words) if words else NO_WORDS


def _names(where: str, kind: str, given: object) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, tuple | list | set | frozenset):
        raise ConfigError(
            f"{where} must be a tuple of names, not {shorten(given)}",
            remedy='Write ("name",) with its comma.',
        )
    plain = plain_code if kind == "codes" else plain_label
    names: dict[str, None] = {}
    for name in given:
        good = plain(name)
        if good is None:
            raise ConfigError(f"{where}: a name {label_fault(name)}", remedy="Rename it.")
        names[good] = None
    kept = tuple(names)
    if len(kept) > DECLARED_MOST:
        raise ConfigError(
            f"{where} declares {len(kept)} names, the most is {DECLARED_MOST}",
            remedy="Count what differs so much in a table of your own.",
        )
    return kept
