"""How a value written in a flag, an environment variable or a TOML file becomes a typed one.

Secret kept here: the spellings of each kind of setting. A kind never looks at the machine; its
`accepted` text is what errors, `--help` and the documentation say. Used by the settings table.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from supervisor.model.spec import MAX_TIMEOUT_S, NO_SOFT_TIMEOUT
from supervisor.settings import address

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,199}\Z")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(KiB|MiB|GiB|TiB)?\Z", re.IGNORECASE)
_SCALE = {"": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_DATABASE = re.compile(r"(postgres(ql)?(\+\w+)?|rediss?|unix)://\S+\Z", re.IGNORECASE)
_WORDS_OF = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
NONE_WORDS = frozenset({"none", ""})
#: How the text of a kind ends that also takes none.
OR_NONE = ", or none"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of value. `parse` raises ValueError or TypeError for what it does not accept.

    What holds passwords is shown as `veil` makes it: a bad value as well as a good one.
    """

    accepted: str
    unit: str
    parse: Callable[[object], object]
    veil: Callable[[object], object] | None = None

    def shown(self, value: object) -> object:
        """Return a value as it may be shown."""
        return value if self.veil is None else self.veil(value)


class Secrets(tuple[str, ...]):
    """Values that nothing shows, whatever prints them: no log, no error, no page."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{len(self)} given, not shown" if self else "none"

    __str__ = __repr__


@dataclass(frozen=True, slots=True)
class Intensity:
    """At most `limit` restarts in `window_s` seconds."""

    limit: int
    window_s: float

    def __str__(self) -> str:
        return f"{self.limit}/{self.window_s:g}"


def seconds(low: float, high: float = MAX_TIMEOUT_S, *, optional: bool = False) -> Kind:
    """A span of time from `low` to `high`."""

    def parse(value: object) -> float:
        number = _number(value)
        if not low <= number <= high:
            raise ValueError
        return number

    return _kind(f"seconds from {low:g} to {high:.10g}", "s", parse, optional=optional)


def soft_limit() -> Kind:
    """A span of time, or none, which is read as the limit that never comes."""
    some = seconds(0.01, optional=True)

    def parse(value: object) -> object:
        given = some.parse(value)
        return NO_SOFT_TIMEOUT if given is None else given

    return Kind(some.accepted, some.unit, parse)


def whole(low: int, high: int) -> Kind:
    """A whole number from `low` to `high`."""

    def parse(value: object) -> int:
        number = _number(value)
        if number != int(number) or not low <= number <= high:
            raise ValueError
        return int(number)

    return _kind(f"a whole number from {low} to {high}", "", parse)


def size(low: int, high: int = 2**50, *, optional: bool = False) -> Kind:
    """A number of bytes, plain or with KiB, MiB, GiB or TiB."""

    def parse(value: object) -> int:
        number = _bytes(value)
        if not low <= number <= high:
            raise ValueError
        return number

    text = f"bytes from {low}, as a number or with KiB, MiB, GiB, TiB (such as 256MiB)"
    return _kind(text, "bytes", parse, optional=optional)


def show_size(count: int) -> str:
    """Write bytes in the largest unit that loses nothing."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        scale = _SCALE[unit.lower()]
        if count and count % scale == 0:
            return f"{count // scale}{unit}"
    return str(count)


def show(value: object, unit: str = "") -> str:
    """Write a value as a source would give it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if unit == "bytes" and isinstance(value, int):
        return show_size(value)
    if value is None or value == NO_SOFT_TIMEOUT:
        return "none"
    if isinstance(value, tuple) and not isinstance(value, Secrets):
        return ",".join(value) or "all"
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def choice(*words: str) -> Kind:
    """One of a few words."""

    def parse(value: object) -> str:
        if value not in words:
            raise ValueError
        return str(value)

    return _kind("one of: " + ", ".join(words), "", parse)


def name() -> Kind:
    """A name as queues, types and nodes have it."""

    def parse(value: object) -> str:
        if not isinstance(value, str) or not _NAME.match(value):
            raise ValueError
        return value

    return _kind("a name of letters, digits and _ . : -", "", parse)


def hostname() -> Kind:
    """A node's name: 1 to 200 printable characters without spaces (a host name may be digits)."""

    def parse(value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(r"[!-~]{1,200}", value):
            raise ValueError
        return value

    return _kind("1 to 200 printable ASCII characters without spaces", "", parse)


def names() -> Kind:
    """Several names, or `all`, which is read as an empty tuple."""

    def parse(value: object) -> tuple[str, ...]:
        if value == "all":
            return ()
        given = value.split(",") if isinstance(value, str) else value
        if not isinstance(given, Sequence) or not given:
            raise ValueError
        parts = [item.strip() if isinstance(item, str) else "" for item in given]
        if not all(_NAME.match(part) for part in parts):
            raise ValueError
        return tuple(dict.fromkeys(parts))

    return _kind("all, or names separated by commas (in TOML: a list)", "", parse)


def path() -> Kind:
    """A directory or file on this host, read relative to the working directory."""

    def parse(value: object) -> str:
        if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
            raise ValueError
        return address.absolute(value)

    return _kind("a path", "", parse)


def store_url() -> Kind:
    """The address of the store: a file, or a database on a server."""

    def parse(value: object) -> str:
        if not isinstance(value, str):
            raise TypeError
        return address.file_url(value) if address.is_file(value) else address.server_url(value)

    text = (
        "sqlite:/// and a file, such as sqlite:////var/lib/tasks/supervisor.db, or "
        "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
    )
    return Kind(text, "", parse, veil=_veiled_url)


def queue_url() -> Kind:
    """The address of the doorbell, or the word none."""

    def parse(value: object) -> str:
        if not isinstance(value, str):
            raise TypeError
        return address.NO_QUEUE if value.lower() in NONE_WORDS else address.queue_url(value)

    text = (
        "none, or a Redis: redis://:PASSWORD@HOST:PORT/NUMBER, rediss:// (with TLS), "
        "or unix:// and a socket file"
    )
    return Kind(text, "", parse, veil=_veiled_url)


def _veiled_url(value: object) -> object:
    return address.without_password(value) if isinstance(value, str) else type(value).__name__


def database_urls() -> Kind:
    """Addresses of databases with the passwords in them."""

    def parse(value: object) -> Secrets:
        given = value.split() if isinstance(value, str) else value
        if not isinstance(given, Sequence):
            raise TypeError
        if len(given) == 1 and str(given[0]).lower() in NONE_WORDS:
            return Secrets()
        if not all(isinstance(one, str) and _DATABASE.match(one) for one in given):
            raise ValueError
        return Secrets(given)

    text = "postgresql:// or redis:// addresses separated by spaces (in TOML: a list)"
    return Kind(text + OR_NONE, "", parse, veil=_counted)


def _counted(value: object) -> object:
    return str(value) if isinstance(value, Secrets) else ""


def switch() -> Kind:
    """True or false."""

    def parse(value: object) -> bool:
        if isinstance(value, bool):
            return value
        if not isinstance(value, str) or value.lower() not in _WORDS_OF:
            raise ValueError
        return _WORDS_OF[value.lower()]

    return _kind("true or false", "", parse)


def listen(*, optional: bool = False) -> Kind:
    """An address to listen on."""

    def parse(value: object) -> str:
        host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
        if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise ValueError
        return f"{host}:{int(port)}"

    text = "HOST:PORT, such as 127.0.0.1:9464 (port 0 takes a free one)"
    return _kind(text, "", parse, optional=optional)


def networks() -> Kind:
    """Addresses of hosts or networks."""

    def parse(value: object) -> str:
        given = value.split(",") if isinstance(value, str) else value
        if not isinstance(given, Sequence) or not given:
            raise TypeError
        return ",".join(str(ipaddress.ip_network(str(one).strip())) for one in given)

    text = "addresses or networks separated by commas, such as 127.0.0.1,10.0.0.0/8"
    return _kind(text, "", parse, optional=True)


def intensity() -> Kind:
    """So many events in so many seconds."""

    def parse(value: object) -> Intensity:
        if isinstance(value, Intensity):
            return value
        limit, mark, window = value.partition("/") if isinstance(value, str) else ("", "", "")
        window_s = _number(window) if mark else 0.0
        if not limit.isascii() or not limit.isdigit() or int(limit) < 1 or window_s <= 0:
            raise ValueError
        return Intensity(int(limit), window_s)

    return _kind("N/SECONDS, such as 5/60 for five in a minute", "", parse)


def _kind(
    accepted: str, unit: str, parse: Callable[[object], object], *, optional: bool = False
) -> Kind:
    if not optional:
        return Kind(accepted, unit, parse)

    def parse_optional(value: object) -> object:
        absent = value is None or (isinstance(value, str) and value.lower() in NONE_WORDS)
        return None if absent else parse(value)

    return Kind(accepted + OR_NONE, unit, parse_optional)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    number = float(value)
    if not math.isfinite(number):
        raise ValueError
    return number


def _bytes(value: object) -> int:
    if isinstance(value, str):
        match = _SIZE.match(value.strip())
        if match is None:
            raise ValueError
        return int(float(match[1]) * _SCALE[(match[2] or "").lower()])
    number = _number(value)
    if number != int(number):
        raise ValueError
    return int(number)
