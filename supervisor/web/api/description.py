"""The description of the API, served by the API itself."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec
from flask import Response, request

from supervisor import __version__
from supervisor.web.api.endpoint import JSON, READ, Endpoint, Nothing
from supervisor.web.api.openapi import describe
from supervisor.web.visit import Visit


def document(server: str = "") -> dict[str, Any]:
    """Return the description of the whole API; `server` is the path below which a site is."""
    from supervisor.web.api import ENDPOINTS

    return describe(ENDPOINTS, __version__, server)


def get_openapi(_visit: Visit, _query: Nothing, _body: None) -> Response:
    """Describe this API (OpenAPI 3.1)."""
    return Response(_encoded(request.script_root), mimetype=JSON)


@lru_cache(maxsize=4)  # a site is reached below one path, or two
def _encoded(server: str) -> bytes:
    return msgspec.json.encode(document(server))


ENDPOINTS = (
    Endpoint(
        method=READ, rule="/openapi.json", function=get_openapi, needs=None, answer=dict[str, Any]
    ),
)
