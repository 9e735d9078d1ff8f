"""Removing secrets before anything reaches a disk or a terminal.

Secret: what looks like one. By name first (a key, an option, a header), then by the shape of the
value. The environment goes through an allow-list only. Called by collectors and the bundle writer.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

MARK = "[redacted]"
VERSION = 1
_NAME_WORDS = frozenset(
    {
        "password", "passwd", "passphrase", "pwd", "pass", "secret", "secrets", "token", "tokens",
        "auth", "authorization", "credential", "credentials", "cred", "creds", "cookie", "cookies",
        "bearer", "jwt", "dsn", "conninfo", "apikey", "sessionid", "signature", "otp", "pin",
        "cvv", "ssn", "iban",
    }
)  # fmt: skip
_NAME_PAIRS = frozenset(
    {
        ("api", "key"), ("access", "key"), ("private", "key"), ("secret", "key"),
        ("session", "key"), ("encryption", "key"), ("signing", "key"), ("account", "key"),
        ("database", "url"), ("db", "url"), ("redis", "url"), ("broker", "url"),
        ("connection", "string"), ("card", "number"),
    }
)  # fmt: skip
_ENVIRONMENT_KEPT = re.compile(
    r"PATH|LANG|LC_[A-Z]+|TZ|TERM|SHELL|USER|LOGNAME|PWD|HOSTNAME|VIRTUAL_ENV|TMPDIR"
    r"|PYTHON(PATH|HOME|UNBUFFERED|HASHSEED|DEVMODE|FAULTHANDLER|OPTIMIZE|WARNINGS|UTF8|MALLOC"
    r"|ASYNCIODEBUG|DONTWRITEBYTECODE|IOENCODING)"
    r"|(OMP|MKL|OPENBLAS)_NUM_THREADS|MALLOC_[A-Z_]+|LD_PRELOAD|LD_LIBRARY_PATH"
)
_NAMED = (
    r"password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|secret[_-]?key|session[_-]?(?:id|key)|auth|authorization|credentials?|cookie|set-cookie"
    r"|signature|sig|dsn|conninfo"
)
_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_USERINFO = re.compile(r"\b([a-z][a-z0-9+.-]*://)([^/\s:@\"']*):([^/\s\"']+)@", re.IGNORECASE)
_BEARER = re.compile(r"\b(bearer|basic|digest)(\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_HEADER = re.compile(
    r"\b((?:proxy-)?authorization|x-api-key|set-cookie|cookie)([\"']?\s*:\s*)([^\r\n]+)",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(
    rf"((?<![A-Za-z0-9])(?:[A-Za-z0-9]+[_-])*(?:{_NAMED})[\"']?\s*(?:=>|=(?!>)|:)\s*)"
    # The mark itself is left alone, so that redacting twice changes nothing.
    r"(?!\[redacted\])(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s\"',;&)}\]]+)",
    re.IGNORECASE,
)
_JWT = re.compile(r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)?")
_KNOWN_KEYS = re.compile(
    r"\b(?:(?:AKIA|ASIA)[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    r"|xox[abeprs]-[A-Za-z0-9-]{10,}|sk-[A-Za-z0-9_-]{16,}|[rs]k_(?:live|test)_[A-Za-z0-9]{10,}"
    r"|AIza[0-9A-Za-z_-]{35}|glpat-[A-Za-z0-9_-]{16,})"
)
_CARD = re.compile(r"(?<![\w.])[3-6]\d{3}(?:[ -]?\d){9,15}(?![\w.])")
# One look that decides whether a string can match anything above: most cannot.
_WORTH_A_LOOK = re.compile(
    rf"{_NAMED}|bearer|basic|digest|://|PRIVATE KEY|eyJ|AKIA|ASIA|gh[pousr]_|github_pat|xox|sk[-_]"
    r"|rk_|AIza|glpat|[3-6]\d{3}[ -]?\d",
    re.IGNORECASE,
)


def text(value: str) -> str:
    """Return the text with everything that has the shape of a secret replaced by the mark."""
    if not _WORTH_A_LOOK.search(value):
        return value
    value = _PEM.sub(MARK, value)
    value = _USERINFO.sub(rf"\1\2:{MARK}@", value)
    value = _HEADER.sub(rf"\1\2{MARK}", value)
    value = _BEARER.sub(rf"\1\2{MARK}", value)
    value = _ASSIGNED.sub(rf"\1{MARK}", value)
    value = _JWT.sub(MARK, value)
    value = _KNOWN_KEYS.sub(MARK, value)
    return _CARD.sub(lambda match: MARK if _is_card(match[0]) else match[0], value)


def looks_secret(name: str) -> bool:
    """Return whether a key, option or variable of this name probably holds a secret."""
    parts = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    words = [word for word in re.split(r"[^A-Za-z0-9]+", parts.lower()) if word]
    if not _NAME_WORDS.isdisjoint(words):
        return True
    return any(pair in _NAME_PAIRS for pair in itertools.pairwise(words))


def tree(value: Any) -> Any:
    """Return JSON data with every secret-looking entry and string redacted; keys stay."""
    return _redacted(value, {})


def arguments(argv: Sequence[str]) -> list[str]:
    """Return a command line whose secret options, joined or separate, lost their values."""
    kept: list[str] = []
    hide_next = False
    for argument in argv:
        is_option = argument.startswith("-")
        kept.append(MARK if hide_next and not is_option else text(argument))
        hide_next = is_option and "=" not in argument and looks_secret(argument)
    return kept


def environment(block: str) -> dict[str, str]:
    """Return the allowed variables of a NUL-separated environment block, values redacted."""
    pairs: Iterable[tuple[str, str, str]] = (entry.partition("=") for entry in block.split("\0"))
    return {name: text(value) for name, _, value in pairs if _ENVIRONMENT_KEPT.fullmatch(name)}


def _redacted(value: Any, seen: dict[str, str]) -> Any:
    if isinstance(value, str):
        if value not in seen:
            seen[value] = text(value)
        return seen[value]
    if isinstance(value, dict):
        return {
            key: _hidden(entry) if looks_secret(str(key)) else _redacted(entry, seen)
            for key, entry in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_redacted(entry, seen) for entry in value]
    return value


def _hidden(value: Any) -> Any:
    """Whether a secret is set at all is worth keeping; what it is, is not."""
    return value if value is None or isinstance(value, bool) else MARK


def _is_card(digits: str) -> bool:
    """The Luhn check: without it every long number would look like a card."""
    numbers = [int(digit) for digit in digits if digit.isdigit()][::-1]
    doubled = (sum(divmod(2 * number, 10)) for number in numbers[1::2])
    return (sum(numbers[::2]) + sum(doubled)) % 10 == 0
