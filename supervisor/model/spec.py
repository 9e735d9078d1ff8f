"""What a task is: the fields a caller may give, checked one by one before anything is written.

Secret kept here: the rules of each field and how a bad value is named (`params.user.conn`).
Pure: the same mapping always gives the same answer. Source: S1 §2.1.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from supervisor.errors import InvalidSpec, Problem
from supervisor.model.trace import read_traceparent

PARAMS_WARN_BYTES = 64 * 1024
PARAMS_MAX_BYTES = 256 * 1024
PARAMS_MAX_DEPTH = 64
PROBLEMS_MAX = 100
KEY_SHOWN_MAX = 80
#: Python itself refuses to write an integer of more than 4,300 digits.
INT_MAX_BITS = 14_000
MAX_TIMEOUT_S = 30 * 86400.0
MAX_RETRIES = 100
#: A soft limit that never comes: what `soft_timeout=None` says.
NO_SOFT_TIMEOUT = math.inf
DEFAULT_PRIORITY = 5
DEFAULT_QUEUE = "default"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,199}\Z")
_TASK_ID = re.compile(r"task_[0-9a-f]{32}\Z")
_NAME_RULE = "a name of letters, digits and _ . : - (at most 200, not starting with a digit)"
_SERVER_OWNED = {
    "retry_count": "is counted by the store",
    "created_at": "is set by the store",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """One task as asked for. A limit of None means: take it from the type, queue or settings.

    Units: timeout and soft_timeout in seconds (NO_SOFT_TIMEOUT: it is told of none); run_after
    aware UTC or None for at once. `params_json` is the encoded object, at most 256 KiB.
    `traceparent` says where in a trace it was submitted: two submits that differ in it alone are
    the same.
    """

    type: str
    params_json: str = "{}"
    task_id: str | None = None
    dedup_key: str | None = None
    dedup_ttl: float | None = None
    queue: str | None = None
    priority: int = DEFAULT_PRIORITY
    timeout: float | None = None
    soft_timeout: float | None = None
    max_retries: int | None = None
    run_after: datetime | None = None
    submitted_by: str | None = None
    tags: tuple[str, ...] = ()
    parent_id: str | None = None
    traceparent: str | None = dataclasses.field(default=None, compare=False)


#: The keys a caller may write, in the order the documentation shows them.
SPEC_FIELDS = ("params", *(f.name for f in fields(TaskSpec) if f.name != "params_json"))


def parse_spec(raw: Mapping[str, Any]) -> TaskSpec:
    """Check every field of `raw` and return the spec.

    Raises: InvalidSpec naming every bad field at once, each by its path.
    """
    problems: list[Problem] = []
    if not isinstance(raw, Mapping):
        raise InvalidSpec([Problem("spec", "must be an object", shorten(raw))])
    problems += [_unknown_field(key) for key in raw if key not in SPEC_FIELDS]
    checked: dict[str, Any] = {"params_json": _params(raw.get("params", {}), problems)}
    for field, check in _CHECKS.items():
        value = raw.get(field)
        if value is None and field != "type":
            if field == "soft_timeout" and field in raw:
                checked[field] = NO_SOFT_TIMEOUT
            elif field in _NEVER_NONE and field in raw:
                problems.append(Problem(field, _NEVER_NONE[field], "None"))
            continue
        refused = "is missing" if value is None and field not in raw else check(value)
        if isinstance(refused, str):
            problems.append(Problem(field, refused, shorten(value) if field in raw else ""))
        else:
            checked[field] = refused[0]
    _soft_below_hard(checked, problems)
    if problems:
        raise InvalidSpec(problems)
    return TaskSpec(**checked)


def long_params(spec: TaskSpec) -> str:
    """Return what to say of params that are better kept elsewhere; "" of others."""
    size = len(spec.params_json)  # characters: a lower bound, and cheap
    if size <= PARAMS_WARN_BYTES:
        return ""
    return (
        f"params of a {spec.type} task are {size} characters of JSON; above {PARAMS_WARN_BYTES} "
        "store the data elsewhere and pass its key"
    )


def shorten(value: object, limit: int = 60) -> str:
    """Show a value in an error without trusting its repr: at most `limit` characters."""
    try:
        text = repr(value)
    except Exception as exc:
        text = f"<{type(value).__name__}, its repr raised {type(exc).__name__}>"
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _unknown_field(key: object) -> Problem:
    if key in _SERVER_OWNED:
        return Problem(str(key), f"{_SERVER_OWNED[str(key)]}: leave it out")
    plain = isinstance(key, str) and _NAME.match(key)
    return Problem(str(key) if plain else shorten(key), "is not a field of a task")


#: Where None says nothing that could be kept; of the other fields it is the same as left out.
_NEVER_NONE = {
    "timeout": "cannot be none, every task has a time limit: leave it out to take its type's",
    "max_retries": "cannot be none: give 0 to never run it again, or leave it out",
    "dedup_ttl": "cannot be none for one task: leave it out to take the setting",
}


# Each check returns the refusal as text, or the accepted value in a 1-tuple.
_Checked = str | tuple[Any]


def _name(value: object) -> _Checked:
    return (value,) if isinstance(value, str) and _NAME.match(value) else f"must be {_NAME_RULE}"


def _task_id(value: object) -> _Checked:
    good = isinstance(value, str) and _TASK_ID.match(value)
    return (value,) if good else "must be task_ and 32 lowercase hex digits"


def _text(limit: int) -> Any:
    def check(value: object) -> _Checked:
        if not isinstance(value, str) or not 1 <= len(value) <= limit:
            return f"must be text of 1 to {limit} characters"
        bad = bad_text(value)
        return f"must not hold {bad}" if bad else (value,)

    return check


def _whole(low: int, high: int) -> Any:
    def check(value: object) -> _Checked:
        good = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return (value,) if good else f"must be a whole number from {low} to {high}"

    return check


def _seconds(value: object) -> _Checked:
    good = (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 < value <= MAX_TIMEOUT_S  # neither NaN nor an infinity is
    )
    return (float(value),) if good else f"must be seconds above 0 and up to {MAX_TIMEOUT_S:.0f}"  # type: ignore[arg-type]


def _moment(value: object) -> _Checked:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return "must be an ISO 8601 time such as 2026-05-20T10:30:00Z"
    if not isinstance(value, datetime):
        return "must be a datetime or ISO 8601 text"
    if value.utcoffset() is None:
        return "must say its offset (a time without one means different moments on two hosts)"
    try:
        return (value.astimezone(UTC),)
    except OverflowError:
        return "is outside the years 1 to 9999 in UTC"


def _tags(value: object) -> _Checked:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > 32:
        return "must be a list of at most 32 texts"
    for tag in value:
        refused = _text(64)(tag)
        if isinstance(refused, str):
            return f"each tag {refused}"
    return (tuple(value),)


def _traceparent(value: object) -> _Checked:
    place = read_traceparent(value) if isinstance(value, str) else None
    if place is None:
        return "must be a W3C traceparent: 00-, 32 and 16 lowercase hex digits, and 2 of flags"
    return (str(place),)


_CHECKS: Mapping[str, Any] = {
    "type": _name,
    "task_id": _task_id,
    "dedup_key": _text(512),
    "dedup_ttl": _seconds,
    "queue": _name,
    "priority": _whole(0, 9),
    "timeout": _seconds,
    "soft_timeout": _seconds,
    "max_retries": _whole(0, MAX_RETRIES),
    "run_after": _moment,
    "submitted_by": _text(200),
    "tags": _tags,
    "parent_id": _task_id,
    "traceparent": _traceparent,
}


def _soft_below_hard(checked: Mapping[str, Any], problems: list[Problem]) -> None:
    soft, hard = checked.get("soft_timeout"), checked.get("timeout")
    if soft not in (None, NO_SOFT_TIMEOUT) and hard is not None and soft >= hard:
        problems.append(Problem("soft_timeout", f"must be below timeout ({hard:g})", f"{soft:g}"))


def bad_text(text: str) -> str:
    """Name what keeps this text from being stored and shown unchanged, or return ''."""
    if "\0" in text:
        return "a NUL character"
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            return "a lone surrogate"
    return ""


def _params(value: object, problems: list[Problem]) -> str:
    if not isinstance(value, Mapping):
        problems.append(Problem("params", "must be an object of named values", shorten(value)))
        return "{}"
    value = dict(value)
    found = json_problems(value, "params")
    if found:
        problems += found
        return "{}"
    encoded = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    size = len(encoded.encode())
    if size > PARAMS_MAX_BYTES:
        problems.append(
            Problem(
                "params",
                f"is {size} bytes as JSON, the most is {PARAMS_MAX_BYTES}: "
                "store the data elsewhere and pass its key",
            )
        )
    return encoded


def json_problems(value: object, path: str) -> list[Problem]:
    """Return what in `value` is not JSON, each by its path; an empty list means all is.

    Stops at the first hundred, so that an error stays an error one can read.
    """
    found: list[Problem] = []
    _look(value, path, 0, found)
    return found


def _look(value: object, path: str, depth: int, found: list[Problem]) -> None:
    if len(found) >= PROBLEMS_MAX:
        return
    if not isinstance(value, dict | list | tuple):  # no other mapping: the encoder knows none
        if why := _not_json(value):
            given = repr(value) if isinstance(value, float) else ""
            found.append(Problem(path, why, given))
    elif depth >= PARAMS_MAX_DEPTH:
        found.append(Problem(path, f"is nested deeper than {PARAMS_MAX_DEPTH} levels"))
    elif isinstance(value, dict):
        _look_into(value, path, depth, found)
    else:
        for index, item in enumerate(value):
            _look(item, f"{path}[{index}]", depth + 1, found)


def _not_json(value: object) -> str:
    """Say what keeps a single value from being JSON, or return ''."""
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, str):
        bad = bad_text(value)
        return f"must not hold {bad}" if bad else ""
    if isinstance(value, int):
        small = value.bit_length() <= INT_MAX_BITS
        return "" if small else f"is a whole number of more than {INT_MAX_BITS} bits"
    if isinstance(value, float):
        return "" if math.isfinite(value) else "is not a JSON number"
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    return f"is not JSON: a {kind} (pass an id or plain values instead)"


def _look_into(value: dict[Any, Any], path: str, depth: int, found: list[Problem]) -> None:
    for key, item in value.items():
        if not isinstance(key, str):
            found.append(Problem(f"{path}[{shorten(key)}]", "has a key that is not text"))
        elif bad := bad_text(key):
            found.append(Problem(f"{path}.{shorten(key)}", f"has a key with {bad}"))
        else:
            shown = key if len(key) <= KEY_SHOWN_MAX else f"{key[: KEY_SHOWN_MAX - 1]}…"
            _look(item, f"{path}.{shown}", depth + 1, found)
