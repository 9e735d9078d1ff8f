"""What the server itself refuses, before it is a request of the site: too long, or no HTTP.

Secret kept here: waitress. Such an answer is a problem document as any error of the API, says
nothing of who serves it, and is written down as any refusal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from waitress.channel import HTTPChannel
from waitress.task import ErrorTask

MIMETYPE = "application/problem+json"
#: Told of each: the status, and the address it came from.
Told = Callable[[int, str], None]


def channel_of(told: Told, headers: dict[str, str]) -> type[Any]:
    """Return the kind of connection whose errors are told and have these headers."""

    class Refusing(ErrorTask):  # type: ignore[misc]
        def execute(self) -> None:
            error = self.request.error
            document = {
                "type": f"urn:supervisor:problem:{error.reason.lower().replace(' ', '-')}",
                "title": error.reason,
                "status": error.code,
                "detail": "The request cannot be read, or is longer than anything that is taken.",
            }
            body = msgspec.json.encode(document)
            self.status = f"{error.code} {error.reason}"
            self.response_headers += [("Content-Type", MIMETYPE), *headers.items()]
            self.set_close_on_finish()
            self.content_length = len(body)
            told(error.code, str(self.channel.addr[0]) if self.channel.addr else "")
            self.write(body)

    class Channel(HTTPChannel):  # type: ignore[misc]
        error_task_class = Refusing

    return Channel
