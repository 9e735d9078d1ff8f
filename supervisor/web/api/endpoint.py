"""What an endpoint of the API is: its place, the right it needs, what it takes and what it answers.

All that is served, documented and checked of an endpoint is read from this one value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
from werkzeug.exceptions import HTTPException

from supervisor.model.access import Right

JSON, ZIP = "application/json", "application/zip"
#: A time with its offset.
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
PREFIX = "/api/v1"
#: Of a body, unless its endpoint says more.
BODY_MAX = 64 * 1024
READ, WRITE = "GET", "POST"
#: What a part of a path may be; anything else leads nowhere.
PARTS: Mapping[str, str] = MappingProxyType(
    {
        "task_id": r"task_[0-9a-f]{32}",
        "autopsy_id": r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}",
        "queue": r"[A-Za-z_][A-Za-z0-9_.:-]{0,199}",
        "verb": r"cancel|fail|rerun",
        "key": r"[0-9a-f]{16}",
        "name": r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}",
    }
)
_ANY_PART = r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]{0,199}"


class Nothing(msgspec.Struct):
    """No query, or no body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One method of one path. `function(visit, query, body, **parts)` answers.

    It returns a value of the type `answer`, or that and a status. `needs` is the right without
    which nobody gets to it (None: anybody may). `errors` are the statuses of its own, beside those
    that every endpoint has. `checked` False: the body is given as it came, a JSON object. What
    `takes` another media type than JSON is given its bytes.
    """

    method: str
    rule: str
    function: Callable[..., Any]
    needs: Right | None
    answer: Any
    query: type[msgspec.Struct] = Nothing
    body: type[msgspec.Struct] | None = None
    codes: tuple[int, ...] = (200,)
    errors: tuple[int, ...] = ()
    body_max: int = BODY_MAX
    checked: bool = True
    takes: str = JSON
    mimetype: str = JSON

    @property
    def has_body(self) -> bool:
        """Whether it takes anything but its address."""
        return self.body is not None or self.takes != JSON

    @property
    def name(self) -> str:
        """Its name, the same for ever: what clients that are made from the description call it."""
        return f"{self.room}.{self.function.__name__}"

    @property
    def room(self) -> str:
        """The module that it stands in: what it is about."""
        return self.function.__module__.rpartition(".")[2]

    @property
    def prose(self) -> tuple[str, str]:
        """What it does, in a sentence, and what else there is to say."""
        first, _, rest = (self.function.__doc__ or "").partition("\n")
        return first.strip(), " ".join(rest.split())


def pattern_of(part: str) -> str:
    """Return what a part of a path may be."""
    return PARTS.get(part, _ANY_PART)


class Trouble(HTTPException):
    """An error of one request: a status, a sentence, and which fields are wrong, each by its path.

    `more` are members of the answer that a program can go by.
    """

    def __init__(
        self,
        code: int,
        why: str,
        *,
        fields: Mapping[str, str] | None = None,
        remedy: str = "",
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(why)
        self.code = code
        self.why = why
        self.fields = fields or {}
        self.remedy = remedy
        self.headers = headers or {}
        self.more = more


def wrong(field: str, why: str) -> Trouble:
    """Return the refusal of a request for one of its fields."""
    return Trouble(422, f"{field}: {why}", fields={field: why})
