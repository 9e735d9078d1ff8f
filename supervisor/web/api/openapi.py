"""The description of the API (OpenAPI 3.1), made from the endpoints themselves.

Invariant: nothing in it is written by hand but words; a struct is described as it is checked. It is
the same for every site but for the path below which that is reached.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Union, get_args, get_origin

import msgspec
from msgspec import UNSET

from supervisor.web.api.endpoint import JSON, PREFIX, Endpoint, pattern_of
from supervisor.web.api.problem import MIMETYPE, Problem, title_of

_BYTES = {"type": "string", "format": "binary"}
_REFERENCE = "#/components/schemas/{name}"
_PART = re.compile(r"<(\w+)>")
#: What any endpoint may answer besides its own.
EVERYWHERE = (400, 422, 429, 500, 503)
WITH_RIGHT = (401, 403)
WITH_BODY = (413, 415)
_WAITS = (429, 503)
_ABOUT = (
    "Everything that the pages of task-supervisor show and do. Lists are paged by key: `next` of a "
    "page is the `before` of the following one. Times are RFC 3339 in UTC, durations in seconds. "
    "An error is a problem document (RFC 9457); `errors` names the fields that are wrong."
)


def describe(endpoints: Sequence[Endpoint], version: str, server: str = "") -> dict[str, Any]:
    """Return the description as JSON data.

    `server` is the path below which the site is reached.
    """
    shapes = list(dict.fromkeys([*_shapes(endpoints), Problem]))
    schemas, components = msgspec.json.schema_components(shapes, ref_template=_REFERENCE)
    known = dict(zip(shapes, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        path = PREFIX + _PART.sub(r"{\1}", endpoint.rule)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint, known)
    return {
        "openapi": "3.1.0",
        "info": {"title": "task-supervisor", "version": version, "description": _ABOUT},
        "servers": [{"url": server or "/"}],
        "security": [{"token": []}, {"session": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {name: _tidy(schema) for name, schema in sorted(components.items())},
            "responses": {_word(code): _error(code) for code in _codes(endpoints)},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "supervisor-PORT",
                    "description": "Of whoever is signed in at the pages. What changes something "
                    "also needs the session's token in the header X-CSRF-Token.",
                },
            },
        },
    }


def _codes(endpoints: Sequence[Endpoint]) -> list[int]:
    own = {code for endpoint in endpoints for code in endpoint.errors}
    return sorted({*EVERYWHERE, *WITH_RIGHT, *WITH_BODY, *own})


def _shapes(endpoints: Sequence[Endpoint]) -> Iterator[Any]:
    for endpoint in endpoints:
        if endpoint.mimetype == JSON and endpoint.answer is not None:
            yield endpoint.answer
        if endpoint.body is not None:
            yield endpoint.body


def _operation(endpoint: Endpoint, known: dict[Any, Any]) -> dict[str, Any]:
    summary, more = endpoint.prose
    made: dict[str, Any] = {
        "operationId": endpoint.name,
        "tags": [endpoint.room],
        "summary": summary,
    }
    if more:
        made["description"] = more
    if endpoint.needs is None:
        made["security"] = [{}]
    else:
        made["x-right"] = str(endpoint.needs)
    if parameters := [*_parts(endpoint), *_parameters(endpoint)]:
        made["parameters"] = parameters
    if endpoint.has_body:
        schema = _BYTES if endpoint.body is None else known[endpoint.body]
        made["requestBody"] = {"required": True, "content": {endpoint.takes: {"schema": schema}}}
    made["responses"] = _responses(endpoint, known)
    return made


def _parts(endpoint: Endpoint) -> Iterator[dict[str, Any]]:
    for name in _PART.findall(endpoint.rule):
        pattern = pattern_of(name)
        words = pattern.split("|")
        schema: dict[str, Any] = {"type": "string", "pattern": f"^{pattern}$"}
        if all(map(str.isalpha, words)):
            schema = {"type": "string", "enum": words}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _parameters(endpoint: Endpoint) -> Iterator[dict[str, Any]]:
    for field in msgspec.structs.fields(endpoint.query):
        kind = _without_none(field.type)
        schema = _inlined(kind)
        about = schema.pop("description", None)
        default = _default(field)
        if default is not UNSET:
            schema["default"] = default
        made: dict[str, Any] = {"name": field.encode_name, "in": "query", "schema": schema}
        if field.required:
            made["required"] = True
        if about:
            made["description"] = about
        yield made


def _default(field: msgspec.structs.FieldInfo) -> Any:
    """Return what a parameter is when it is left out; UNSET where that only means: not asked."""
    if field.default in (msgspec.NODEFAULT, None, "", UNSET):
        return UNSET
    return msgspec.to_builtins(field.default)


def _without_none(kind: Any) -> Any:
    """Return a type without None, which a query cannot say."""
    if get_origin(kind) is Union or type(kind).__name__ == "UnionType":
        (rest,) = (one for one in get_args(kind) if one is not type(None))
        return rest
    return kind


def _inlined(kind: Any) -> dict[str, Any]:
    """Return the schema of a parameter with what it refers to in its place."""
    (schema,), components = msgspec.json.schema_components([kind], ref_template=_REFERENCE)

    def put(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                found = put(components[value["$ref"].rpartition("/")[2]])
                return {**found, **{k: v for k, v in value.items() if k != "$ref"}}
            return {name: put(one) for name, one in value.items() if name != "title"}
        return [put(one) for one in value] if isinstance(value, list) else value

    made = put(schema)
    if "allOf" in made and len(made["allOf"]) == 1:
        made = {**made.pop("allOf")[0], **made}
    assert isinstance(made, dict)
    return made


def _responses(endpoint: Endpoint, known: dict[Any, Any]) -> dict[str, Any]:
    good: dict[str, Any] = {}
    if endpoint.mimetype == JSON:
        good = {JSON: {"schema": known[endpoint.answer]}}
    else:
        good = {endpoint.mimetype: {"schema": _BYTES}}
    made = {str(code): {"description": title_of(code), "content": good} for code in endpoint.codes}
    codes = {*EVERYWHERE, *endpoint.errors}
    codes |= set(WITH_RIGHT) if endpoint.needs is not None else set()
    codes |= set(WITH_BODY) if endpoint.has_body else set()
    for code in sorted(codes):
        made[str(code)] = {"$ref": f"#/components/responses/{_word(code)}"}
    return made


def _error(code: int) -> dict[str, Any]:
    schema = {"$ref": _REFERENCE.format(name=Problem.__name__)}
    made: dict[str, Any] = {
        "description": title_of(code),
        "content": {MIMETYPE: {"schema": schema}},
    }
    if code in _WAITS:
        whole = {"type": "integer", "minimum": 0}
        made["headers"] = {"Retry-After": {"schema": whole, "description": "Seconds."}}
    return made


def _word(code: int) -> str:
    return title_of(code).replace(" ", "")


def _tidy(schema: Any) -> Any:
    """Return a schema without the titles that only repeat its name."""
    if isinstance(schema, dict):
        return {
            name: _tidy(one)
            for name, one in schema.items()
            if not (name == "title" and isinstance(one, str))
        }
    return [_tidy(one) for one in schema] if isinstance(schema, list) else schema
