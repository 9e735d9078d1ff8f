"""What `supervisor check` asks the Redis of a doorbell before a start.

Secret kept here: what would make it useless, or lose ids without a word. Nothing is written: a
write is queued in a transaction, where the server refuses it if it must, and discarded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from supervisor.errors import QueueUnavailable
from supervisor.queue.redis_link import NEEDED, Link, facts_of
from supervisor.settings.address import NO_QUEUE, without_password

NEVER = "supervisor:check:none"


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that was found; `remedy` is empty where it is ok."""

    level: Literal["ok", "warn", "fail"]
    text: str
    remedy: str = ""


def examine(queue_url: str) -> list[Fact]:
    """Look at the Redis of a doorbell. Raises: QueueUnavailable when it does not answer."""
    if queue_url == NO_QUEUE:
        return []
    with Link(queue_url) as link:
        return [*_ability(link, without_password(queue_url)), *_memory(link)]


def _ability(link: Link, shown: str) -> Iterator[Fact]:
    # Refused to an account that may not ask for it; then only what it may do is known.
    server, replication = (
        {} if isinstance(told, QueueUnavailable) else facts_of(told)
        for told in link.try_all(("INFO", "server"), ("INFO", "replication"))
    )
    named = f"{shown} is a Redis {server.get('redis_version', 'of a version it does not tell')}"
    begun, queued, _, popped = link.try_all(
        ("MULTI",), ("SET", NEVER, 1), ("DISCARD",), ("BZMPOP", 0.001, 1, NEVER, "MIN")
    )
    refused = [one for one in (begun, queued, popped) if isinstance(one, QueueUnavailable)]
    if any(one.facts["code"] == "UNKNOWN" for one in refused):
        yield Fact("fail", f"{named}: it lacks BZMPOP", f"Use Redis {NEEDED} or newer.")
    elif replication.get("role") == "slave" and refused:
        yield Fact("fail", f"{named}: a replica that only reads", "Name the primary.")
    elif refused:
        remedy = refused[0].remedy or "See the server's log."
        yield Fact("fail", f"{named} and refuses: {refused[0].facts['said']}", _sentence(remedy))
    else:
        yield Fact("ok", f"{named}, reachable and writable")


def _memory(link: Link) -> Iterator[Fact]:
    policy, most = link.eviction()
    if policy.startswith("allkeys"):
        now = f"at {most} bytes" if most else "once it has a maxmemory"
        yield Fact(
            "warn",
            f"maxmemory-policy is {policy}: {now} it drops ids of due tasks, which start late then",
            "Set maxmemory-policy to noeviction, or give the doorbell a Redis of its own.",
        )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
