"""What a request asks, read and checked: its query and its body become the endpoint's structs.

Invariants: a name that is not known is refused, never ignored; the first thing that is wrong with a
value is named by the path of its field; no text with a NUL or a lone surrogate gets through.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from flask import request
from werkzeug.exceptions import RequestEntityTooLarge

from supervisor.model.query import QueryError
from supervisor.model.spec import bad_text
from supervisor.web.api.endpoint import JSON, ZIP, Endpoint, Trouble, pattern_of, wrong

T = TypeVar("T", bound=msgspec.Struct)

_NAMES = {JSON: "JSON", ZIP: "the file of a bundle"}
_AT = re.compile(r" - at `\$\.?([^`]*)`\Z")
_FIELD = re.compile(r"(?:Object (?:missing required|contains unknown) field `([^`]*)`)")
_NOT_BLANK = r"matching regex '\\S'"
_MANY = (list, tuple)


def parts_of(given: Mapping[str, str]) -> None:
    """Check the parts of the path; what is no id names nothing. Raises: Trouble."""
    for name, value in given.items():
        if not re.fullmatch(pattern_of(name), value):
            raise Trouble(404, f"There is no such {name.replace('_id', '').replace('_', ' ')}.")


def query_of(endpoint: Endpoint) -> Any:
    """Return the query as the endpoint's struct. Raises: Trouble."""
    known = {field.encode_name: field.type for field in msgspec.structs.fields(endpoint.query)}
    given: dict[str, Any] = {}
    for name, values in request.args.lists():
        if name not in known:
            names = ", ".join(sorted(known)) or "none"
            raise wrong(_shown(name), f"is no parameter of this; there are: {names}")
        if len(values) > 1 and not _takes_many(known[name]):
            raise wrong(name, "is given twice")
        given[name] = values if _takes_many(known[name]) else values[0]
    return _converted(given, endpoint.query, is_text=True)


def body_of(endpoint: Endpoint) -> Any:
    """Return the body as the endpoint's struct; as it came where it checks that itself.

    Raises: Trouble.
    """
    if not endpoint.has_body:
        return None
    if request.mimetype != endpoint.takes:
        raise Trouble(
            415, f"The body must be {_NAMES[endpoint.takes]}, and say so: "
            f"Content-Type: {endpoint.takes}"
        )  # fmt: skip
    try:
        body = request.get_data(cache=False)
    except RequestEntityTooLarge:
        raise Trouble(413, f"The body is longer than {endpoint.body_max} bytes.") from None
    if endpoint.takes != JSON:
        return body
    given = _object(body)
    if not endpoint.checked or endpoint.body is None:
        return given
    return _converted(given, endpoint.body, is_text=False)


def _object(body: bytes) -> dict[str, Any]:
    try:
        given = msgspec.json.decode(body)
    except RecursionError:
        raise Trouble(400, "The body is nested too deep.") from None
    except msgspec.ValidationError as exc:
        raise Trouble(400, f"The body holds what cannot be kept: {exc}") from exc
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise Trouble(400, f"The body is not JSON in UTF-8: {exc}") from exc
    if not isinstance(given, dict):
        raise Trouble(422, "The body must be a JSON object.", fields={"": "must be an object"})
    return given


def bad_query(field: str, error: QueryError) -> Trouble:
    """Return the refusal of a query that cannot be read, with the place where that is."""
    return Trouble(
        422,
        error.message,
        fields={field: error.message},
        remedy=error.remedy,
        position=error.position,
        length=error.length,
    )


def _takes_many(kind: Any) -> bool:
    kind = getattr(kind, "__origin__", kind)
    return any(getattr(kind, "__origin__", kind) is one for one in _MANY)


def _converted(given: Mapping[str, Any], kind: type[msgspec.Struct], *, is_text: bool) -> Any:
    for path, text in _texts(given, ""):
        if bad := bad_text(text):
            raise wrong(path, f"must not hold {bad}")
    given = given if is_text else {name: whole(value) for name, value in given.items()}
    return converted(given, kind, is_text=is_text)


def whole(value: Any) -> Any:
    """Return 3 for 3.0, to JSON they are the same number; what is deeper no body of ours has."""
    if isinstance(value, dict):
        return {name: _flat(one) for name, one in value.items()}
    return _flat(value)


def _flat(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def converted(given: Mapping[str, Any], kind: type[T], *, is_text: bool = False) -> T:
    """Return what was given as a struct. Raises: Trouble naming the field that is wrong."""
    try:
        made = msgspec.convert(given, kind, strict=not is_text)
    except msgspec.ValidationError as exc:
        path, why = _told(str(exc))
        raise wrong(path, why) from exc
    for name in kind.__struct_fields__:
        if isinstance(moment := getattr(made, name), datetime):
            try:
                moment.astimezone(UTC)
            except OverflowError as exc:
                raise wrong(name, "is before or after all years in UTC") from exc
    return made


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield every text with its path; depth and length are bounded by the body's."""
    waiting = [(path, value)]
    while waiting:
        path, one = waiting.pop()
        if isinstance(one, str):
            yield path, one
        elif isinstance(one, list):
            waiting += [(f"{path}[{index}]", item) for index, item in enumerate(one)]
        elif isinstance(one, dict):
            for name, item in one.items():
                shown = _shown(name)
                yield shown, name
                waiting.append((f"{path}.{shown}" if path else shown, item))


def _told(message: str) -> tuple[str, str]:
    """Return path and reason of what msgspec refuses."""
    found = _AT.search(message)
    path = found[1] if found else ""
    message = _AT.sub("", message)
    if message.endswith(_NOT_BLANK):
        message = "is blank"
    if field := _FIELD.search(message):
        path = f"{path}.{field[1]}" if path else field[1]
        message = "is missing" if "missing" in message else "is not a field of this"
    return path, message


def _shown(name: str) -> str:
    return name if name.isascii() and name.isprintable() and len(name) <= 80 else "…"
