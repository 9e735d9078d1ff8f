"""The API under test: asks one site with one token, and reads the answers.

Secret kept here: how a request is sent. Every error is checked to be a problem document.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

JSON, PROBLEM = "application/json", "application/problem+json"


@dataclass(frozen=True, slots=True)
class Told:
    """What came back."""

    code: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def fields(self) -> dict[str, str]:
        """The fields that were wrong, and why."""
        return {one["field"]: one["why"] for one in self.document.get("errors", [])}


class Api:
    """Asks the API of one site; `token` None sends none."""

    def __init__(self, base: str, token: str | None, **headers: str) -> None:
        self.base = f"{base.rstrip('/')}/api/v1"
        self.headers = dict(headers)
        if token is not None:
            self.headers["Authorization"] = f"Bearer {token}"

    def get(self, path: str, method: str = "GET", **headers: str) -> Told:
        return self.ask(method, path, None, **headers)

    def post(self, path: str, **body: Any) -> Told:
        return self.ask("POST", path, json.dumps(body).encode(), Content_Type=JSON)

    def ask(self, method: str, path: str, data: bytes | None, **headers: str) -> Told:
        request = urllib.request.Request(self.base + path, data, method=method)
        for name, value in {**self.headers, **headers}.items():
            request.add_header(name.replace("_", "-"), value)
        try:
            answer = urllib.request.urlopen(request, timeout=20)
        except urllib.error.HTTPError as exc:
            answer = exc
        with answer:
            told = Told(answer.code, answer.headers, answer.read())
        if told.code >= 400 and method != "HEAD":
            assert told.headers["Content-Type"] == PROBLEM, told
            assert told.document["status"] == told.code
            assert told.document["detail"]
        return told
