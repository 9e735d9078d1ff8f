"""One connection to a Redis, and its errors in words that say what to do.

Secret kept here: redis-py. Nothing waits longer than its timeout, and nothing is sent a second time
by the library itself: a pop whose answer was lost must not be repeated. Private to queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Self

from supervisor.errors import QueueUnavailable
from supervisor.queue.inbox import Nudge
from supervisor.settings.address import without_password

Command = Sequence[str | int | float]
Reply = Any

#: How long a connect or an answer may take; a Redis answers in less than a millisecond.
ANSWER_S = 0.75
NEEDED = "7.0"

#: The first word of the server's error → what can be done about it.
_REMEDIES = MappingProxyType(
    {
        "WRONGPASS": "give the right user and password in the setting queue",
        "NOAUTH": "give the password in the setting queue: redis://:PASSWORD@HOST",
        "NOPERM": "allow the user its commands on the keys and channels supervisor:*",
        "READONLY": "the setting queue must name the primary",
        "OOM": "raise its maxmemory, or give the doorbell a Redis of its own",
        "MISCONF": "it cannot save to disk: make room there, or turn its saving off",
        "LOADING": "it reads its data in and answers soon",
        "MASTERDOWN": "the setting queue must name the primary",
        "MOVED": "give the doorbell a Redis that is no cluster",
        "CROSSSLOT": "give the doorbell a Redis that is no cluster",
        "UNKNOWN": f"Redis {NEEDED} or newer is needed, with all its commands",
    }
)
_POOL_ONLY = ("max_connections", "timeout")  # what a URL may hold for pools, which we have none of


class Link:
    """A connection that is up."""

    def __init__(self, url: str, wait_s: float = ANSWER_S) -> None:
        """Connect. Raises: QueueUnavailable."""
        self._shown = without_password(url)
        try:
            self._connection = _connection(url, wait_s)
            self._connection.connect()
        except Exception as exc:
            raise self._failed(exc) from exc

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, *commands: Command) -> list[Reply]:
        """Send commands together and return their answers. Raises: QueueUnavailable."""
        answers = self.try_all(*commands)
        for answer in answers:
            if isinstance(answer, QueueUnavailable):
                raise answer
        return answers

    def try_all(self, *commands: Command) -> list[Reply]:
        """Send commands together; what the server refuses is returned, not raised.

        Raises: QueueUnavailable when the connection broke.
        """
        from redis.exceptions import ResponseError

        answers: list[Reply] = []
        try:
            packed = self._connection.pack_commands(commands)
            self._connection.send_packed_command(packed, check_health=False)
            for _ in commands:
                try:
                    answers.append(self._connection.read_response())
                except ResponseError as exc:
                    answers.append(self._failed(exc))
        except Exception as exc:
            raise self._failed(exc) from exc
        return answers

    def messages(self, wait_s: float, nudge: Nudge) -> list[tuple[str, str]]:
        """Return what was published on subscribed channels: each channel with its message.

        Waits for the first so long, or until nudged. Raises: QueueUnavailable.
        """
        came: list[list[Reply]] = []
        try:
            while self._connection.can_read():
                came.append(self._connection.read_response())
            if not came:
                nudge.wait(self._connection._sock.fileno(), wait_s)
            while self._connection.can_read():
                came.append(self._connection.read_response())
        except Exception as exc:
            raise self._failed(exc) from exc
        # What is told already comes before the answer to a further SUBSCRIBE, which is no message.
        return [(channel, said) for form, channel, said in came if form == "message"]

    def eviction(self) -> tuple[str, int]:
        """Return the server's eviction policy and its maxmemory in bytes (0: no limit).

        The policy is empty where the account may not ask.
        """
        (told,) = self.try_all(("INFO", "memory"))
        if isinstance(told, QueueUnavailable):
            return "", 0
        facts = facts_of(told)
        return facts.get("maxmemory_policy", ""), int(facts.get("maxmemory", 0))

    def close(self) -> None:
        """Hang up; may be called by another thread, whose wait for an answer it ends."""
        self._connection.disconnect()

    def _failed(self, exc: Exception) -> QueueUnavailable:
        said = " ".join(str(exc).split()) or type(exc).__name__
        code = getattr(exc, "status_code", None) or ""
        if "unknown command" in said.lower():
            code = "UNKNOWN"
        remedy = _REMEDIES.get(code, "")
        text = f"{self._shown}: {without_password(said)}" + (f" ({remedy})" if remedy else "")
        return QueueUnavailable(text, remedy=remedy, code=code, said=without_password(said))


def _connection(url: str, wait_s: float) -> Any:
    from redis import Connection
    from redis.connection import parse_url

    options: dict[str, Any] = {**parse_url(url)}  # type: ignore[no-untyped-call]
    for name in _POOL_ONLY:
        options.pop(name, None)
    if "path" not in options:  # not a socket file
        options["socket_keepalive"] = True
    return options.pop("connection_class", Connection)(
        **{
            **options,
            "socket_timeout": wait_s,
            "socket_connect_timeout": ANSWER_S,
            "client_name": "supervisor",
            "driver_info": None,
            "protocol": 2,
            "decode_responses": True,
        }
    )


def facts_of(info: str) -> dict[str, str]:
    """Read the answer of INFO."""
    pairs = (line.partition(":") for line in info.splitlines() if not line.startswith("#"))
    return {name: value for name, colon, value in pairs if colon}
