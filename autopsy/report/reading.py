"""How a report reads a payload: what is not there, cut or of another shape is simply not told.

Invariant: never raises, whatever JSON it is given; a bundle can come from another version.
"""

from __future__ import annotations

from typing import Any

from autopsy.section import Payload

_KIB = 1024
_MOST = 10**16


def rows(payload: Payload, key: str, *needed: str) -> list[Payload]:
    """Return the objects of a list that have the needed keys; a mark of what was cut has none."""
    listed = payload.get(key)
    if not isinstance(listed, list):
        return []
    return [one for one in listed if isinstance(one, dict) and all(name in one for name in needed)]


def missing(payload: Payload, key: str) -> int:
    """Return how many entries of a list were left out by its collector or by the size cap."""
    listed = payload.get(key)
    marks = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    cut = sum(count(one.get("cut")) for one in marks if set(one) == {"cut"})
    return cut + count(payload.get("left_out"))


def mapping(value: Any) -> Payload:
    """Return an object, or an empty one in its place."""
    return value if isinstance(value, dict) else {}


def listing(value: Any) -> list[Any]:
    """Return a list, or an empty one in its place."""
    return value if isinstance(value, list) else []


def text(value: Any, otherwise: str = "") -> str:
    """Return a value as text; None is what stands in for it."""
    return otherwise if value is None or value == "" else str(value)


def number(value: Any) -> float | None:
    """Return a number, or None for anything else and for what no measure can be."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and -_MOST < value < _MOST else None


def figure(found: float) -> str:
    """Return a number that the patient chose; digits as long as people can read them."""
    return f"{found:.0f}" if abs(found) < 1e15 and found == int(found) else f"{found:g}"


def count(value: Any) -> int:
    """Return a whole number that is not negative; 0 for anything else."""
    found = number(value)
    return max(0, int(found)) if found is not None else 0


def words(value: Any, limit: int = 500) -> str:
    """Return a command line as one line."""
    return " ".join(str(one) for one in listing(value))[:limit]


def size(value: Any) -> str:
    """Return bytes for a person; `?` when unknown."""
    found = number(value)
    if found is None:
        return "?"
    for unit in ("B", "KiB", "MiB"):
        if abs(found) < _KIB:
            return f"{found:.0f} {unit}" if unit == "B" else f"{found:.1f} {unit}"
        found /= _KIB
    return f"{found:.1f} GiB"


def span(value: Any) -> str:
    """Return seconds for a person; `?` when unknown."""
    found = number(value)
    if found is None:
        return "?"
    if abs(found) < 1:
        return f"{found * 1000:.0f} ms"
    if abs(found) < 120:
        return f"{found:.1f} s"
    minutes, seconds = divmod(int(found), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"


def place(frame: Any) -> str:
    """Return `function file:line` of a frame; empty when there is none."""
    found = mapping(frame)
    if "function" not in found:
        return ""
    return f"{found['function']} {found.get('file', '?')}:{found.get('line', '?')}"
