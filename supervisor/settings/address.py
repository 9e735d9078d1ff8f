"""Addresses of the task store and of the doorbell: how they are spelled, and shown.

Secret kept here: which URLs are accepted, and where a password stands in one. Pure: looks at no
file and asks no server. Whoever shows an address to people passes it through `without_password`.
"""

from __future__ import annotations

import re
from pathlib import Path

FILE_PREFIX = "sqlite:///"
SERVER_PREFIX = "postgresql+psycopg://"
NO_QUEUE = "none"
MASK = "***"

_SERVER = re.compile(r"(?:postgres|postgresql|postgresql\+psycopg)://(\S+)\Z", re.IGNORECASE)
_REDIS = re.compile(r"rediss?://([^\s/?#]*)(?:/(\d*))?(?:\?(\S*))?\Z", re.IGNORECASE)
_REDIS_SOCKET = re.compile(r"unix://(?:[^\s/?]*@)?/[^\s?]+(?:\?\S*)?\Z", re.IGNORECASE)
# One host, a name or an address, and its port. Passwords may hold anything up to the last @.
_HOST = re.compile(r"(?:[^@\s/?#]*@)?(?:\[[0-9a-fA-F:.%]+\]|[^\s:@/?#\[\],]*)(?::(\d{1,5}))?\Z")
_NAMED = re.compile(r"(?:^|&)(?:dbname|service)=[^&]", re.IGNORECASE)
_IN_FRONT = re.compile(r"(://[^:@/?#\s]*):.*@", re.DOTALL)
_BARE = re.compile(r"\A([^:@]*):.*@", re.DOTALL)
# As libpq and redis-py name them, in the query of a URL or in `name=value` words.
_IN_WORDS = re.compile(
    r"((?:ssl)?pass(?:word|wd|phrase)?\s*=\s*)('(?:[^'\\]|\\.)*'|[^&\s]+)", re.IGNORECASE
)


def is_file(url: str) -> bool:
    """Say whether this is the address of a file."""
    return url.startswith(FILE_PREFIX)


def file_url(text: str) -> str:
    """Read the address of a file; a relative one is made absolute, so that all processes agree.

    Raises: ValueError.
    """
    file, mark, query = text.removeprefix(FILE_PREFIX).partition("?")
    if not is_file(text) or "\0" in text:
        raise ValueError
    if not file or file.startswith((":memory:", "file:")):
        raise ValueError  # every process would see its own, empty store
    return FILE_PREFIX + absolute(file) + mark + query


def server_url(text: str) -> str:
    """Read the address of a PostgreSQL database and return it in the one spelling that is kept.

    A database must be named: libpq would take one that is called like the user, who may be
    another for each process. Raises: ValueError.
    """
    found = _SERVER.match(text)
    if found is None or "\0" in text:
        raise ValueError
    place, _, query = found[1].partition("?")
    authority, _, database = place.partition("/")
    # An @ there is that of a password with a slash in it, which would be shown.
    if not _is_host(authority) or "@" in database or not (database or _NAMED.search(query)):
        raise ValueError
    return SERVER_PREFIX + found[1]


def queue_url(text: str) -> str:
    """Read the address of a Redis, over TCP, TLS or a socket file. Raises: ValueError."""
    found = _REDIS.match(text)
    if "\0" in text or not (_REDIS_SOCKET.match(text) or (found and _is_host(found[1]))):
        raise ValueError
    scheme, mark, rest = text.partition("://")
    return scheme.lower() + mark + rest


def absolute(file: str | Path) -> str:
    """Return a path that does not depend on the working directory. Raises: ValueError."""
    try:
        return str(Path(file).expanduser().absolute())
    except RuntimeError as exc:  # a home directory that nobody has
        raise ValueError from exc


def without_password(text: str) -> str:
    """Return an address as people may see it, also one that is not well-formed.

    Rather hides too much than too little: with a stray @ all before the last one is taken for
    a password.
    """
    if is_file(text):
        return text
    shown = _IN_WORDS.sub(rf"\1{MASK}", text)
    pattern = _IN_FRONT if "://" in shown else _BARE
    return pattern.sub(rf"\1:{MASK}@", shown, count=1)


def _is_host(authority: str) -> bool:
    found = _HOST.match(authority)
    return found is not None and (found[1] is None or int(found[1]) <= 65535)
