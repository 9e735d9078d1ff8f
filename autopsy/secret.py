"""Values known to be secret, removed wherever they appear and in whatever writing.

Secret: in which forms a value turns up again: as it is, in JSON, in a repr, in a URL, in base64,
line by line, and cut at either end of a text. `redact` removes by shape; here nothing is guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from autopsy import redact

#: Shorter ones would be found everywhere.
MIN_LENGTH = 4
_MAX_VALUES = 500
# A longer value is searched in pieces: of a text that is cut, some pieces are whole, and what is
# left of the others stands beside them.
_PIECE = 100
_MIN_PIECE = 16
_MAX_PIECES = 1000
# Shorter values must stand alone: a word may begin with them.
_SURE_LENGTH = 8
# What is left of a value at the end of a text that was cut there.
_CUT_LENGTH = 8
# What a node writes before output that it has cut, and what is left of a character cut there.
_BEFORE_CUT = re.compile(r"(?:\[… \d+ bytes of earlier output dropped …\]\n)?\ufffd{0,3}")
_MIN_NUMBER = 10**5
# Of the values that are found by the names of variables and options.
_MIN_FOUND = 6
_PASSWORD = re.compile(r"://[^/\s:@\"']{0,200}:([^\s\"'?#]{1,500})@")
# Of a database or broker: with a user, or a scheme that only those have.
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s]*@|(?:postgres|redis|mysql|amqp|mongodb)\w*[+:]")
# Passwords that everybody knows hide nothing, and are part of many other words.
_NO_SECRETS = frozenset(
    {
        "postgres", "postgresql", "password", "secret", "mysql", "redis", "admin", "rabbitmq",
        "guest", "example", "changeme", "default", "localhost", "development", "testing",
    }
)  # fmt: skip


#: A part of a long value, that value as it is written, and where in it the part begins.
_Piece = tuple[str, str, int]


class Secrets:
    """A set of secret values. Redacting with it includes all that `redact` does."""

    __slots__ = ("_ends", "_long", "_numbers", "_pattern", "_pieces", "_starts")

    def __init__(self, values: Iterable[str] = ()) -> None:
        chosen = list(dict.fromkeys(one for one in values if len(one) >= MIN_LENGTH))[:_MAX_VALUES]
        short = [one for one in chosen if len(one) <= _PIECE]
        forms = sorted({form for one in short for form in _forms(one)}, key=len, reverse=True)
        pieces = (piece for one in chosen if len(one) > _PIECE for piece in _pieces(one))
        found = {piece[0]: piece for piece in islice(pieces, _MAX_PIECES)}
        self._pieces = tuple(found.values())
        self._pattern = re.compile("|".join(map(_as_pattern, forms))) if forms else None
        self._numbers = frozenset(one for one in chosen if one.lstrip("-").isdigit())
        self._long = tuple(one for one in chosen if len(one) > _CUT_LENGTH)
        # Cut at the end of a text, a value still begins like one; at its start, it ends like one.
        self._starts = _any_of(one[:_CUT_LENGTH] for one in self._long)
        self._ends = _any_of(one[-_CUT_LENGTH:] for one in self._long)

    def text(self, value: str) -> str:
        """Return the text without these values and without what looks like a secret."""
        return redact.text(self._removed(value))

    def tree(self, value: Any) -> Any:
        """Return JSON data without these values, keys included, and redacted by name and shape."""
        if self._pattern is None and not self._pieces:
            return redact.tree(value)
        keys: dict[str, str] = {}
        return self._without_keys(redact.tree(value, self.text), keys)

    def _without_keys(self, value: Any, keys: dict[str, str]) -> Any:
        """Remove what is known from keys and numbers; strings are clean already."""
        if isinstance(value, dict):
            cleaned = {}
            for key, one in value.items():
                name = str(key)
                if name not in keys:
                    keys[name] = self.known(name)
                cleaned[keys[name]] = self._without_keys(one, keys)
            return cleaned
        if isinstance(value, list):
            return [self._without_keys(one, keys) for one in value]
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return redact.MARK if is_number and self._is_known(value) else value

    def _is_known(self, number: int) -> bool:
        return abs(number) >= _MIN_NUMBER and str(number) in self._numbers

    def known(self, value: str) -> str:
        """Return the text without these values; nothing is guessed, not even that it was cut.

        So a key may well begin as an address ends.
        """
        if len(value) >= _MIN_PIECE:
            for piece in self._pieces:
                if piece[0] in value:
                    value = _without_piece(value, *piece)
        return self._pattern.sub(redact.MARK, value) if self._pattern else value

    def _removed(self, value: str) -> str:
        return self._without_cut_ends(self.known(self._without_cut_ends(value)))

    def _without_cut_ends(self, value: str) -> str:
        if self._starts is None or self._ends is None or len(value) < _CUT_LENGTH:
            return value
        longest = max(map(len, self._long))
        for match in self._starts.finditer(value, max(0, len(value) - longest)):
            rest = value[match.start() :]
            if any(one.startswith(rest) for one in self._long) and not _is_known_word(rest):
                value = f"{value[: match.start()]}{redact.MARK}"
                break
        found = _BEFORE_CUT.match(value)
        start = found.end() if found else 0
        cut = start
        for match in self._ends.finditer(value, start, start + longest):
            rest = value[start : match.end()]
            if any(one.endswith(rest) for one in self._long) and not _is_known_word(rest):
                cut = match.end()
        return value if cut == start else f"{value[:start]}{redact.MARK}{value[cut:]}"


def in_params(params: Any, marked: Iterable[str] = ()) -> Iterator[str]:
    """Yield the values of params whose name is marked or says that it is secret, however deep."""
    names = frozenset(marked)
    if isinstance(params, Mapping):
        for name, value in params.items():
            if str(name) in names or redact.looks_secret(str(name)):
                yield from leaves(value)
            else:
                yield from in_params(value, names)
    elif isinstance(params, (list, tuple)):
        for value in params:
            yield from in_params(value, names)


def in_environment(block: str) -> Iterator[str]:
    """Yield the secret values of a NUL-separated environment block."""
    for name, value in redact.variables(block):
        if redact.is_kept(name):
            continue
        yield from in_urls(value)
        # Of an address only the password: a text may well end in "postgresql".
        is_address = _ADDRESS.match(value) is not None
        if not is_address and redact.is_secret_itself(name) and _is_worth_it(value):
            yield value


def in_urls(value: str) -> Iterator[str]:
    """Yield the passwords of the URLs in a text."""
    yield from (match[1] for match in _PASSWORD.finditer(value) if _is_worth_it(match[1]))


def in_arguments(argv: Sequence[str]) -> Iterator[str]:
    """Yield what `redact` would remove from a command line."""
    for given, kept in zip(argv, redact.arguments(argv), strict=True):
        before, mark, _ = kept.partition(redact.MARK)
        after = kept.rpartition(redact.MARK)[2]
        if mark and given.startswith(before) and given.endswith(after):
            value = given[len(before) : len(given) - len(after)].strip("\"'")
            if _is_worth_it(value):
                yield value


def _is_worth_it(value: str) -> bool:
    return len(value) >= _MIN_FOUND and not _is_known_word(value)


def _is_known_word(value: str) -> bool:
    return value.lower() in _NO_SECRETS


def leaves(value: Any) -> Iterator[str]:
    """Yield every text and number in JSON data as text."""
    if isinstance(value, Mapping):
        for one in value.values():
            yield from leaves(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from leaves(one)
    elif isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool)):
        yield str(value)


def _forms(value: str) -> Iterator[str]:
    import base64  # only where there are secrets: a bundle of last resort has few
    from urllib.parse import quote, quote_plus

    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    yield repr(value.encode("utf-8", "replace"))[2:-1]
    yield quote(value, safe="", errors="replace")
    yield quote(value, errors="replace")
    yield quote_plus(value, errors="replace")
    if len(value) >= _SURE_LENGTH:
        encoded = base64.b64encode(value.encode("utf-8", "replace")).decode()
        yield encoded.rstrip("=")
        yield from _lines(value)


def _pieces(value: str) -> Iterator[_Piece]:
    """Yield a long value line by line and in pieces, as it is and as it is written in JSON."""
    for line in _lines(value):
        yield line, line, 0
    for written in dict.fromkeys((value, json.dumps(value)[1:-1], repr(value)[1:-1])):
        last = len(written) - _MIN_PIECE
        for at in (*range(0, last, _PIECE), last):
            length = _MIN_PIECE if at == last else _PIECE
            yield written[at : at + length], written, at


def _without_piece(value: str, piece: str, whole: str, at: int) -> str:
    """Remove a piece, with what stands on either side of it as it does in the whole."""
    kept, done = [], 0
    while (begin := value.find(piece, done)) >= 0:
        end, before, after = begin + len(piece), at, at + len(piece)
        while begin > done and before > 0 and value[begin - 1] == whole[before - 1]:
            begin, before = begin - 1, before - 1
        while end < len(value) and after < len(whole) and value[end] == whole[after]:
            end, after = end + 1, after + 1
        kept.append(value[done:begin])
        done = end
    return redact.MARK.join((*kept, value[done:]))


def _lines(value: str) -> Iterator[str]:
    yield from (line.strip() for line in value.splitlines() if len(line.strip()) >= _MIN_PIECE)


def _as_pattern(form: str) -> str:
    escaped = re.escape(form)
    if len(form) >= _SURE_LENGTH:
        return escaped
    return rf"(?<![A-Za-z0-9]){escaped}(?![A-Za-z0-9])"


def _any_of(parts: Iterable[str]) -> re.Pattern[str] | None:
    found = "|".join(re.escape(part) for part in dict.fromkeys(parts))
    return re.compile(found) if found else None
