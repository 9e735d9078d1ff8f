"""Waits inside a server: what its sessions, its titles or only the stack say of them."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import (
    backend,
    codes,
    evidence,
    frame,
    inside,
    lock,
    parked,
    seen,
    sleeps,
    socket,
    thread,
    wait,
)

PACKAGES = "/venv/lib/python3.11/site-packages"
SAVES = frame("save", "/app/shop.py", 5, "cursor.execute(UPDATE)")
DRIVER = [frame("execute", f"{PACKAGES}/psycopg/cursor.py"), SAVES]
WAITS = thread(syscall="poll", waits_on=[3])
JUST = socket(silent_ms=100, received_bytes=5)
AT_A_SOCKET = {"sockets": {"sockets": [socket()]}}
ROW = {"wait_type": "Lock", "wait": "transactionid", "query": "UPDATE a"}
IDLE = {"state": "idle in transaction", "query": "UPDATE a"}
NOTHING = [("unknown", 0.0)]
LOCK, QUERY, SELF = "blocked.db_lock", "blocked.db_query", "deadlock.db_self"


def asks(*backends: dict[str, Any], **sections: Any) -> dict[str, Any]:
    """Make a thread in the driver of PostgreSQL, and what the server says of its sessions."""
    postgresql = [{"server": "127.0.0.1:5432", "status": "ok", "backends": list(backends)}]
    databases = {"postgresql": postgresql, "local_servers": []}
    return seen(WAITS, **{"stacks": [DRIVER], "databases": databases, **sections})


def beside(stack: list[dict[str, Any]], own: dict[str, Any], **sections: Any) -> dict[str, Any]:
    """Make two threads: one in the driver, blocked by a session of this process, one at a lock."""
    blocked = asks(backend(1, blocked_by=[2], **ROW), own)
    return seen(
        WAITS,
        parked(11),
        stacks=[stack, [frame("count", source="with LOCK:")]],
        databases=blocked["databases"],
        **sections,
    )


def titles(*titles: str, **look: Any) -> dict[str, Any]:
    """Make a thread in the driver and the processes of a server that could not be asked."""
    listed = [{"pid": 90 + n, "title": title} for n, title in enumerate(titles)]
    databases = {"postgresql": [{"status": "refused", "backends": []}], "local_servers": listed}
    return seen({**WAITS, **look}, stacks=[DRIVER], databases=databases)


OWN = backend(2, **IDLE)
FOREIGN = backend(2, application="psql", ours=False, **IDLE)
POSTGRESQL = {
    "a row that another process has": (
        asks(backend(1, blocked_by=[2], **ROW), FOREIGN),
        [(LOCK, 0.95)],
    ),
    "a row that nobody visible has": (asks(backend(1, blocked_by=[2], **ROW)), [(LOCK, 0.85)]),
    "a row that its own other session has": (
        asks(backend(1, blocked_by=[2], **ROW), OWN),
        [(SELF, 0.96)],
    ),
    "a row, through another process, that it has itself": (
        asks(
            backend(1, blocked_by=[2], **ROW),
            {**FOREIGN, "blocked_by": [3]},
            backend(3, **IDLE),
        ),
        [(SELF, 0.96)],
    ),
    "two rows in a circle": (
        asks(backend(1, blocked_by=[2], **ROW), {**FOREIGN, "blocked_by": [1]}),
        [(LOCK, 0.95)],
    ),
    "a row that it has itself, through one that another process has": (
        asks(
            backend(1, blocked_by=[2], **ROW),
            {**OWN, "blocked_by": [3]},
            {**FOREIGN, "pid": 3},
        ),
        [(LOCK, 0.95)],
    ),
    "a row that both it and another process have": (
        asks(backend(1, blocked_by=[2, 3], **ROW), OWN, {**FOREIGN, "pid": 3}),
        [(LOCK, 0.95)],
    ),
    "a row of its own, and a lock that the waiter holds": (
        beside([*DRIVER[:1], {**SAVES, "file": "/app/x.py", "inside": ["LOCK"]}], OWN),
        [("deadlock.hybrid", 0.96), ("deadlock.in_process", 0.2)],
    ),
    "a row of its own, and a lock that was read": (
        beside(DRIVER, OWN, thread_locks=inside([lock("0x1", 10)], wait(11))),
        [("deadlock.hybrid", 0.96), ("deadlock.in_process", 0.2)],
    ),
    "a row of its own, and a lock whose holder nobody knows": (
        beside(DRIVER, OWN),
        [("deadlock.hybrid", 0.96), ("deadlock.in_process", 0.3)],
    ),
    "a row of another, and a lock that the waiter holds": (
        beside(DRIVER, FOREIGN, thread_locks=inside([lock("0x1", 10)], wait(11))),
        [(LOCK, 0.95), ("deadlock.in_process", 0.2)],
    ),
    "a slow statement": (asks(backend(1)), [(QUERY, 0.88)]),
    "a slow disk of the server": (
        asks(backend(1, wait_type="IO", wait="DataFileRead")),
        [(QUERY, 0.88)],
    ),
    "a slow statement, whose socket is polled": (
        asks(backend(1), **AT_A_SOCKET),
        [(QUERY, 0.88), ("blocked.external", 0.3)],
    ),
    "a row that another process has, whose socket is polled": (
        asks(backend(1, blocked_by=[2], **ROW), FOREIGN, **AT_A_SOCKET),
        [(LOCK, 0.95), ("blocked.external", 0.3)],
    ),
    "perhaps a slow statement, whose socket is polled": (
        asks(FOREIGN, **AT_A_SOCKET),
        [("blocked.external", 0.75), (QUERY, 0.5), (LOCK, 0.4)],
    ),
    "a server that waits for its client": (asks(backend(1, wait_type="Client")), NOTHING),
    "a session at rest": (asks(backend(1, state="idle")), [("blocked.external", 0.8)]),
    "a session at rest beside a busy one": (
        asks(backend(1, state="idle"), backend(2)),
        [(QUERY, 0.88)],
    ),
    "two sessions at rest": (asks(backend(1, state="idle"), backend(2, state="idle")), NOTHING),
    "a transaction at rest": (asks(backend(1, **IDLE)), NOTHING),
    "rows that keep coming": (
        asks(backend(1), sockets={"sockets": [JUST]}, second=[{**WAITS, "switches": 1}]),
        [("none.progressing", 0.6), ("blocked.external", 0.4)],
    ),
    "a driver that moves": (
        asks(backend(1), second=[{**WAITS, "switches": 5}]),
        [("none.progressing", 0.4)],
    ),
    "only sessions of others": (asks(FOREIGN), [(QUERY, 0.5), (LOCK, 0.4)]),
    "titles, of which one waits": (
        titles("postgres: shop idle", "postgres: shop UPDATE waiting"),
        [(LOCK, 0.75)],
    ),
    "titles, of which none waits": (titles("postgres: shop SELECT"), [(QUERY, 0.6)]),
    "titles, of which one is idle": (titles("postgres: SELECT", "postgres: shop idle"), NOTHING),
    "no server": (titles(), [(QUERY, 0.5), (LOCK, 0.4)]),
    "the driver itself computes": (titles(state="R"), [("busy.native", 0.85)]),
    "no thread in a driver, but a session that waits": (
        asks(backend(1, blocked_by=[2], **ROW), FOREIGN, stacks=[[frame("main")]]),
        [(LOCK, 0.95)],
    ),
}
LEAK = "leak.db_connections"


def checks_out(function: str, file: str, **pool: Any) -> dict[str, Any]:
    stack = [frame(function, f"{PACKAGES}/{file}"), frame("save")]
    pools = {"pools": [{"kind": "QueuePool", **pool}]} if pool else {}
    return seen(WAITS, stacks=[stack], pools=pools)


def of_sqlalchemy(**pool: Any) -> dict[str, Any]:
    return checks_out("_do_get", "sqlalchemy/pool/impl.py", **pool)


ALIKE = [(QUERY, 0.5), (LOCK, 0.4)]
POOLS = {
    "SQLAlchemy": (of_sqlalchemy(), [(LEAK, 0.85)]),
    "the queue of SQLAlchemy": (checks_out("get", "sqlalchemy/util/queue.py"), [(LEAK, 0.85)]),
    "psycopg_pool": (checks_out("getconn", "psycopg_pool/pool.py"), [(LEAK, 0.85), *ALIKE]),
    "asyncpg": (checks_out("_acquire", "asyncpg/pool.py"), [(LEAK, 0.85), *ALIKE]),
    "redis": (checks_out("get_connection", "redis/connection.py"), [(LEAK, 0.85)]),
    "DBUtils": (checks_out("connection", "DBUtils/PooledDB.py"), [(LEAK, 0.85)]),
    "it makes a connection": (checks_out("connect", "sqlalchemy/pool/base.py"), NOTHING),
    "all are taken": (of_sqlalchemy(size=5, checked_out=5), [(LEAK, 0.94)]),
    "all are taken, with those beyond": (
        of_sqlalchemy(size=5, max_overflow=2, checked_out=7),
        [(LEAK, 0.94)],
    ),
    "some beyond are free": (of_sqlalchemy(size=5, max_overflow=2, checked_out=6), [(LEAK, 0.85)]),
    "without a limit beyond": (
        of_sqlalchemy(size=5, max_overflow=-1, checked_out=5),
        [(LEAK, 0.94)],
    ),
    "a pool of no size": (of_sqlalchemy(size=0, checked_out=0), [(LEAK, 0.85)]),
    "how many are taken is unknown": (of_sqlalchemy(size=5), [(LEAK, 0.85)]),
}
CORE = f"{PACKAGES}/redis/commands/core.py"
DISTRIBUTED, POLLING = "blocked.distributed_lock", ("blocked.polling", 0.4)
AS_IT_LOOKS = ("blocked.polling", 0.3)  # of a cause that is nearly sure
TAKES = frame("acquire", f"{PACKAGES}/redis/lock.py")
HELD = {"key": "lock:pay", "value": "worker-3", "ttl_s": None}


def client(command: str, flags: str = "N") -> dict[str, Any]:
    return {"client": "127.0.0.1:40", "command": command, "idle_s": 1, "flags": flags}


def redis(*clients: dict[str, Any], **server: Any) -> dict[str, Any]:
    return {"databases": {"redis": [{"clients": list(clients), **server}]}}


def in_turns(*stacks: list[dict[str, Any]], moved: bool = False, **sections: Any) -> dict[str, Any]:
    """Make a thread that woke in its short sleeps."""
    look = sleeps(left_s=0.05)
    second = [{**look, "switches": 1}]
    return seen(look, second=second, stacks=list(stacks), moved=moved, **sections)


def consumes(source: str, flags: str = "N") -> dict[str, Any]:
    stack = [frame("read", CORE), frame("main", "/app/shop.py", source=source)]
    return seen(WAITS, stacks=[stack], **redis(client("blpop", flags)))


FOR_EVER = [("blocked.external", 0.78)]
AGAIN = [("none.idle", 0.77), ("blocked.external", 0.5)]
REDIS = {
    "a lock of the client library": (
        in_turns([TAKES, SAVES], **redis(client("set"), locks=[HELD])),
        [(DISTRIBUTED, 0.88), AS_IT_LOOKS],
    ),
    "a lock of the client library, and no server that answers": (
        in_turns([TAKES, SAVES]),
        [(DISTRIBUTED, 0.88), AS_IT_LOOKS],
    ),
    "a lock that it has got in the meantime": (
        in_turns([TAKES, SAVES], [SAVES], moved=True),
        [("none.progressing", 0.45)],
    ),
    "a file of its own called lock.py": (
        in_turns([frame("acquire", "/app/lock.py")]),
        [POLLING],
    ),
    "a loop of its own that sets a key": (
        in_turns([SAVES], **redis(client("set"))),
        [(DISTRIBUTED, 0.6), POLLING],
    ),
    "a loop of its own that runs a script": (
        in_turns([SAVES], **redis(client("evalsha|x"), locks=[{**HELD, "ttl_s": 7}])),
        [(DISTRIBUTED, 0.6), POLLING],
    ),
    "a loop that only reads": (in_turns([SAVES], **redis(client("get"))), [POLLING]),
    "a consumer that waits for ever": (consumes("item = r.blpop('jobs')"), FOR_EVER),
    "a consumer without a limit": (consumes("item = r.blpop('jobs', timeout=0)"), FOR_EVER),
    "a consumer that asks again": (consumes("item = r.blpop('jobs', timeout=5)"), AGAIN),
    "a reader of a stream": (consumes("r.xreadgroup(g, c, s, block=5000)"), AGAIN),
    "a listener": (consumes("for m in pubsub.listen():"), FOR_EVER),
    "the server calls it blocked": (consumes("ask(r)", flags="b"), FOR_EVER),
    "an answer that does not come": (consumes("r.get('x')"), NOTHING),
}


def sqlite(*pids: int, stacks: int = 1) -> dict[str, Any]:
    held = [{"pid": pid, "command_line": ["import.py", "-v"], "kind": "POSIX"} for pid in pids]
    databases = {"sqlite": [{"file": "/data/shop.db", "fd": 4, "held_by": held}]}
    frames = [[SAVES], [frame("other")]][:stacks]
    return in_turns(*frames, moved=stacks > 1, databases=databases)


FILE = "blocked.file_lock"
SQLITE = {
    "another process has the file": (sqlite(500), [(FILE, 0.85), AS_IT_LOOKS]),
    "its own connection has the file": (sqlite(10), [(FILE, 0.6), POLLING]),
    "both have the file": (sqlite(10, 500), [(FILE, 0.85), AS_IT_LOOKS]),
    "nobody has the file": (sqlite(), [POLLING]),
    "it gets on": (sqlite(500, stacks=2), [("none.progressing", 0.45)]),
    "it does not try again": (
        {**sqlite(500), "movement": {"at_ms": 250.0, "alive": True, "reaped": False}},
        [("blocked.sleep", 0.5)],
    ),
}
TABLE = {
    f"{group}: {row}": case
    for group, rows in (
        ("postgresql", POSTGRESQL),
        ("pool", POOLS),
        ("redis", REDIS),
        ("sqlite", SQLITE),
    )
    for row, case in rows.items()
}


@pytest.mark.parametrize(("sections", "expected"), TABLE.values(), ids=TABLE)
def test_what_the_server_says_names_the_cause(
    sections: dict[str, Any], expected: list[tuple[str, float]]
) -> None:
    assert codes(sections) == expected


WAITING = "databases: session 1 (shop) is active, Lock transactionid for 8.0 s: UPDATE a"
BLOCKED = (
    "databases: 1 is blocked by pid 2, application {}, idle in transaction, in its transaction "
    "for 9.0 s, last statement: UPDATE a"
)
WHERE = f"stacks: save (/app/shop.py:5), there in execute ({PACKAGES}/psycopg/cursor.py:1)"
LINES = {
    "postgresql: a row that another process has": (WAITING, BLOCKED.format("psql"), WHERE),
    "postgresql: a row that nobody visible has": (WAITING, WHERE),
    "postgresql: a row that its own other session has": (
        "databases: the session 2 that blocks it is of this very process",
        WAITING,
        BLOCKED.format("shop"),
        WHERE,
    ),
    "postgresql: a row, through another process, that it has itself": (
        "databases: the session 3 that blocks it is of this very process",
        WAITING,
        BLOCKED.format("psql"),
        WHERE,
    ),
    "postgresql: a row of its own, and a lock that was read": (
        "databases: the session 2 that blocks it is of this very process",
        WAITING,
        BLOCKED.format("shop"),
        WHERE,
        "thread_locks: thread 11 (python) waits for the lock `lock 0x1`, which MainThread holds",
    ),
    "postgresql: a slow disk of the server": (
        "databases: session 1 (shop) is active, IO DataFileRead for 8.0 s: SELECT 1",
        "databases: it waits for IO/DataFileRead",
        WHERE,
    ),
    "postgresql: titles, of which none waits": (
        "databases: process 90: postgres: shop SELECT",
        WHERE,
    ),
    "postgresql: no server": (
        "databases: the server could not be asked: a slow statement and a lock look alike",
        WHERE,
    ),
    "pool: all are taken, with those beyond": (
        ("stacks: MainThread waits for a connection of its pool in save (/app/x.py:1), "
        f"there in _do_get ({PACKAGES}/sqlalchemy/pool/impl.py:1)"),
        "pools: QueuePool, 7 of 7 taken",
    ),
    "redis: a lock of the client library": (
        "databases: the key lock:pay is held by worker-3, which never ends by itself",
        "databases: Redis client 127.0.0.1:40: set, 1 s ago",
        f"stacks: save (/app/shop.py:5), there in acquire ({PACKAGES}/redis/lock.py:1)",
    ),
    "redis: a loop of its own that runs a script": (
        "movement: it asks again and again, with commands that take a lock",
        "databases: the key lock:pay is held by worker-3, for 7 s more",
        "databases: Redis client 127.0.0.1:40: evalsha|x, 1 s ago",
        "stacks: save (/app/shop.py:5)",
    ),
    "redis: a consumer that asks again": (
        "databases: Redis client 127.0.0.1:40: blpop, 1 s ago",
        "stacks: the command gives up after a time, and is given again",
        f"stacks: main (/app/shop.py:1), there in read ({CORE}:1)",
    ),
    "sqlite: both have the file": (
        "databases: /data/shop.db is locked by process 500 (import.py -v)",
        "stacks: save (/app/shop.py:5)",
    ),
    "sqlite: its own connection has the file": (
        "databases: /data/shop.db is locked by a connection of this very process",
        "stacks: save (/app/shop.py:5)",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("row", "lines"), LINES.items(), ids=LINES)
def test_the_evidence_is_what_the_server_said(row: str, lines: tuple[str, ...]) -> None:
    sections, expected = TABLE[row]
    assert evidence(sections, expected[0][0]) == lines


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"application": ""}, "session 1 (no name) is active, no wait  for 8.0 s: SELECT 1"),
        ({"state_s": None}, "session 1 (shop) is active, no wait  for an unknown time: SELECT 1"),
        ({"query": ""}, "session 1 (shop) is active, no wait  for 8.0 s: (not visible)"),
        ({"query": "A\nB"}, "session 1 (shop) is active, no wait  for 8.0 s: A B"),
        ({"query": "x" * 161}, f"session 1 (shop) is active, no wait  for 8.0 s: {'x' * 160}"),
    ],
    ids=["no name", "no time", "hidden statement", "two lines", "long statement"],
)
def test_a_session_is_told_in_one_line(changes: dict[str, Any], line: str) -> None:
    assert evidence(asks(backend(1, **changes)), QUERY)[0] == f"databases: {line}"
