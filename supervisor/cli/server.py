"""What `supervisor check` finds of a store and a doorbell on servers.

Secret kept here: what of a server's condition would go wrong, and when. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from supervisor.cli.finding import EXIT_AWAY, FAIL, OK, WARN, Finding
from supervisor.clock import SystemClock
from supervisor.errors import QueueUnavailable, StoreUnavailable, SupervisorError
from supervisor.settings import NO_QUEUE, Settings
from supervisor.words.roll import Roll, is_silent, roll_call
from supervisor.words.text import span

if TYPE_CHECKING:
    from supervisor.store.condition import Condition
    from supervisor.store.postgresql import ServerStore
    from supervisor.store.view import NodeView

#: A clock that is off by more is worth a line: logs and file times of the hosts do not agree.
SKEW_S = 1.0
#: Older ones are not mended any more by those who make them.
OLDEST_MAJOR = 15
#: Sessions of a node and a few of the people who look.
CONNECTIONS = 10
ENCODING = "UTF8"
BELL_REMEDY = (
    "See that the Redis of the setting queue runs and can be reached from this host. Nodes go on "
    "without it: they look into the table, and start tasks up to a second later."
)


def store_findings(settings: Settings) -> Iterator[Finding]:
    """Look at a store on a server and at the nodes that run on it."""
    from supervisor.store.condition import examine
    from supervisor.store.postgresql import open_server

    try:
        with closing(open_server(settings.store, clock=SystemClock())) as store:
            condition = examine(store)
            yield from _server(store.name, condition)
            if condition.schema is None:
                yield _no_tables(store.name, condition)
            else:
                yield from _tables(store, condition)
                yield from _nodes(settings)
            if condition.is_pooled and settings.queue == NO_QUEUE:
                yield Finding(
                    "bell", WARN, "a pooler stands before the server: it brings no notifications, "
                    "new tasks are found by looking, within 0.2 s",
                    "Name a Redis with --queue, or the server's own address with --store.",
                )  # fmt: skip
    except StoreUnavailable as exc:
        yield Finding("store", FAIL, exc.message, exc.remedy, EXIT_AWAY)
    except SupervisorError as exc:
        yield Finding("store", FAIL, exc.message, exc.remedy, exc.exit_code)


def bell_findings(settings: Settings) -> Iterator[Finding]:
    """Look at the Redis that is to ring, if one is."""
    from supervisor.queue.examine import examine

    try:
        for fact in examine(settings.queue):
            yield Finding("bell", fact.level, fact.text, fact.remedy, EXIT_AWAY)
    except QueueUnavailable as exc:
        text = exc.message.removesuffix(f" ({exc.remedy})")
        yield Finding("bell", FAIL, text, exc.remedy or BELL_REMEDY, EXIT_AWAY)


def _server(name: str, condition: Condition) -> Iterator[Finding]:
    through = " through a pooler" if condition.is_pooled else ""
    told = f"{name} is a PostgreSQL {condition.version}{through}"
    if condition.major < OLDEST_MAJOR:
        yield Finding(
            "server", WARN, f"{told}, which is no longer mended",
            f"Use PostgreSQL {OLDEST_MAJOR} or newer.",
        )  # fmt: skip
    else:
        yield Finding("server", OK, told)
    if condition.encoding != ENCODING:
        yield Finding(
            "server", FAIL, f"the database is encoded in {condition.encoding}",
            f"Make one that can keep any text: `createdb --encoding {ENCODING} "
            "--template template0 NAME`.",
        )  # fmt: skip
    for setting, cost in condition.at_stake.items():
        yield Finding(
            "server", WARN, f"{setting} is off: at a power cut {cost}",
            f"Turn {setting} on.",
        )  # fmt: skip
    if condition.connections_left < CONNECTIONS and not condition.is_pooled:
        yield Finding(
            "server", WARN,
            f"{condition.connections_left} connections are left; a node takes up to {CONNECTIONS}",
            "Raise max_connections, or put a pooler before the server.",
        )  # fmt: skip
    yield from _clock("this host", condition.skew_s)


def _clock(whose: str, skew_s: float) -> Iterator[Finding]:
    if abs(skew_s) > SKEW_S:
        where = "ahead of" if skew_s > 0 else "behind"
        yield Finding(
            "clock", WARN, f"the clock of {whose} is {span(abs(skew_s))} {where} the database's",
            "Let NTP keep the clocks of all hosts. Tasks go by the database's, logs by the host's.",
        )  # fmt: skip


def _no_tables(name: str, condition: Condition) -> Finding:
    if condition.is_replica:
        return Finding(
            "store", FAIL, f"{name} holds no task store and is a replica",
            "Name the primary.", EXIT_AWAY,
        )  # fmt: skip
    if not condition.may_create:
        return Finding(
            "store", FAIL, f"{name} holds no task store, and its user may not make one",
            "Let it own the database: `ALTER DATABASE … OWNER TO …`; then `supervisor db upgrade`.",
            EXIT_AWAY,
        )  # fmt: skip
    return Finding(
        "store", WARN, f"{name} holds no task store yet",
        "`supervisor run` and `submit` make it; or run `supervisor db upgrade`.",
    )  # fmt: skip


def _tables(store: ServerStore, condition: Condition) -> Iterator[Finding]:
    from supervisor.store import open_store
    from supervisor.store.condition import prove_writable

    if condition.lacking:
        yield Finding(
            "store", FAIL, f"its user may not read and write {', '.join(condition.lacking)}",
            "GRANT ALL ON ALL TABLES IN SCHEMA … TO the user.", EXIT_AWAY,
        )  # fmt: skip
        return
    prove_writable(store)
    open_store(store.url, create=False).close()  # tells of a schema that is not ours
    yield Finding("store", OK, f"{store.name} is reachable, writable and up to date")


def _nodes(settings: Settings) -> Iterator[Finding]:
    from supervisor.store import Reader, open_store

    with closing(open_store(settings.store, create=False)) as store:
        roll = roll_call(Reader(store))
    for node in roll.every:
        if node.ended_at is None:
            yield from _node(node, roll)
    twins = [one for one in roll.running if one.node_name == settings.node_name]
    if any(one.node_id not in roll.here for one in twins):
        yield Finding(
            "node", WARN, f"a node of another host is called {settings.node_name} as well",
            "Give each host a name of its own with --node-name: people tell them apart by it.",
        )  # fmt: skip


def _node(node: NodeView, roll: Roll) -> Iterator[Finding]:
    named = f"node {node.node_name} (pid {node.pid}, version {node.version})"
    if is_silent(node):
        since = span(-(node.lease_left_s or 0.0))
        yield Finding(
            "node", WARN, f"the lease of {named} is over since {since}",
            "If it runs, see why it cannot reach the database; other nodes take its tasks over.",
        )  # fmt: skip
    elif node.node_id in roll.gone:
        yield Finding(
            "node", WARN, f"{named} was killed; its lease is over in {span(node.lease_left_s)}",
            "Start it again: other nodes take its tasks over by then.",
        )  # fmt: skip
    else:
        left = (
            "" if node.lease_left_s is None else f", its lease holds for {span(node.lease_left_s)}"
        )
        yield Finding("node", OK, f"{named} runs{left}")
    yield from _clock(f"host {node.node_name}", node.skew_s)
