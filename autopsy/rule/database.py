"""Waits inside a database server: row locks, slow statements, exhausted pools, distributed locks.

Secret: what a session of the server says about the thread that waits for it. Where the server could
not be asked, the titles of its local processes and the code on the stack say less, and less surely.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from autopsy import needs
from autopsy.case import Case, Frame, Thread
from autopsy.cause import Code, Diagnosis, hit
from autopsy.rule.rest import just_heard
from autopsy.section import Payload

_DRIVERS = ("psycopg", "asyncpg", "pg8000", "sqlalchemy/dialects/postgresql")
_REDIS = ("/redis/", "/valkey/", "/aioredis/")
_POOL_CHECKOUTS = (
    ("sqlalchemy/pool", ("_do_get", "get")),
    ("sqlalchemy/util/queue", ("get",)),
    ("psycopg_pool", ("getconn", "wait")),
    ("asyncpg/pool", ("_acquire", "acquire")),
    ("redis/connection", ("get_connection",)),
    ("DBUtils", ("connection",)),
)
_LOCK_COMMANDS = ("set", "setnx", "eval", "evalsha")
# In the source of a call: a blocking command that does not block for ever.
_GIVES_UP = re.compile(r"\b(?:timeout|block)\s*=\s*[1-9]")
# Commands and methods that wait for an item or a message.
_FOR_AN_ITEM = re.compile(r"\.(?:b[lrz]\w*pop\w*|b[lr]\w*move\w*|xread\w*|listen|get_message)\(")
_QUERY_CHARS = 160
_MANY = 4


def database(case: Case) -> Iterator[Diagnosis]:
    """Name waits for a database server and for what other sessions hold in it."""
    yield from _pools(case)
    mine = [one for one in case.backends if one.get("ours")]
    locked = [one for one in mine if one.get("wait_type") == "Lock"]
    for backend in locked:
        yield _lock_wait(case, backend)
    waiting = [
        one
        for one in case.threads
        if _is_in(one, _DRIVERS) and one.still and not just_heard(case, one)
    ]
    if waiting and not locked:
        yield from _slow(waiting[0], mine)
    if waiting and not mine:
        yield from _by_titles(case, waiting[0])
    yield from _redis(case)
    yield from _sqlite(case)


def _lock_wait(case: Case, backend: Payload) -> Diagnosis:
    by_pid = {one["pid"]: one for one in case.backends}
    blockers = [by_pid[pid] for pid in backend.get("blocked_by") or [] if pid in by_pid]
    lines = [_waits(backend), *(_blocks(one, backend) for one in blockers[:_MANY])]
    lines += [f"stacks: {one.where}" for one in case.threads if _is_in(one, _DRIVERS)][:2]
    roots = _roots(backend, by_pid)
    own = [one for one in roots if one.get("ours")]
    if not own or len(own) < len(roots):
        return hit(Code.BLOCKED_DB_LOCK, 0.95 if blockers else 0.85, *lines)
    note = f"databases: the session {own[0]['pid']} that blocks it is of this very process"
    held = [line for one in case.threads for line in _waits_for_a_held_lock(case, one)]
    if held:
        return hit(Code.DEADLOCK_HYBRID, 0.96, note, *lines, *held[:_MANY])
    return hit(Code.DEADLOCK_DB_SELF, 0.96, note, *lines)


def _roots(backend: Payload, by_pid: dict[int, Payload]) -> list[Payload]:
    """The sessions at whose end all would go on: those that wait for none, or all of a circle."""
    found: dict[int, Payload] = {}
    queue = list(backend.get("blocked_by") or [])
    while queue:
        pid = queue.pop()
        if pid in by_pid and pid not in found:
            found[pid] = by_pid[pid]
            queue += by_pid[pid].get("blocked_by") or []
    free = [one for one in found.values() if not one.get("blocked_by")]
    return free or list(found.values())


def _waits_for_a_held_lock(case: Case, one: Thread) -> tuple[str, ...]:
    """Evidence that a thread waits for a lock of this process that another thread has."""
    if not one.parked or not one.still or needs.kind_of_wait(case, one) != needs.LOCK:
        return ()
    need = needs.need_of(case, one)
    return need.evidence if need else (f"stacks: {one.called} waits for a lock in {one.where}",)


def _slow(waiter: Thread, mine: list[Payload]) -> Iterator[Diagnosis]:
    where = f"stacks: {waiter.where}"
    for one in mine:
        if one.get("state") == "active" and one.get("wait_type") != "Client":
            doing = f"waits for {one['wait_type']}/{one['wait']}" if one.get("wait") else "runs"
            yield hit(Code.BLOCKED_DB_QUERY, 0.88, _waits(one), f"databases: it {doing}", where)
        elif one.get("state") == "idle" and len(mine) == 1:
            note = "databases: the session is idle: it listens, or the server waits for us"
            yield hit(Code.BLOCKED_EXTERNAL, 0.8, _waits(one), note, where)


def _by_titles(case: Case, waiter: Thread) -> Iterator[Diagnosis]:
    """Without the server's own view: the titles that its local processes show to everybody."""
    listed = case.listed("databases", "local_servers")
    titles = [str(one.get("title", "")) for one in listed]
    lines = [f"databases: process {one['pid']}: {one.get('title')}" for one in listed[:_MANY]]
    where = f"stacks: {waiter.where}"
    if any(title.endswith("waiting") for title in titles):
        yield hit(Code.BLOCKED_DB_LOCK, 0.75, *lines, where)
    elif titles and not any(title.endswith("idle") for title in titles):
        yield hit(Code.BLOCKED_DB_QUERY, 0.6, *lines, where)
    elif not titles:
        note = "databases: the server could not be asked: a slow statement and a lock look alike"
        yield hit(Code.BLOCKED_DB_QUERY, 0.5, note, where)
        yield hit(Code.BLOCKED_DB_LOCK, 0.4, note, where)


def _pools(case: Case) -> Iterator[Diagnosis]:
    """A thread waits for a connection of a pool, of which none is free."""
    for waiter in case.threads:
        if waiter.running or not _at_a_pool(waiter):
            continue
        full = [pool for pool in case.listed("pools", "pools") if _is_full(pool)]
        told = [
            f"pools: {pool['kind']}, {pool['checked_out']} of {_room(pool)} taken" for pool in full
        ]
        seen = f"stacks: {waiter.called} waits for a connection of its pool in {waiter.where}"
        yield hit(Code.LEAK_DB_CONNECTIONS, 0.94 if full else 0.85, seen, *told[:_MANY])


def _at_a_pool(one: Thread) -> bool:
    return any(one.within(*names, file=file, depth=8) for file, names in _POOL_CHECKOUTS)


def _is_full(pool: Payload) -> bool:
    return "checked_out" in pool and pool["checked_out"] >= max(_room(pool), 1)


def _room(pool: Payload) -> int:
    return int(pool.get("size") or 0) + max(int(pool.get("max_overflow") or 0), 0)


def _redis(case: Case) -> Iterator[Diagnosis]:
    servers = case.listed("databases", "redis")
    clients = [one for server in servers for one in server.get("clients") or []]
    told = [
        f"databases: Redis client {one['client']}: {one['command']}, {one['idle_s']} s ago"
        for one in clients[:_MANY]
    ]
    taken = [
        f"databases: the key {one['key']} is held by {one['value']}, {_lasting(one)}"
        for server in servers
        for one in (server.get("locks") or [])[:_MANY]
    ]
    for one in case.threads:
        where = f"stacks: {one.where}"
        if _takes_a_lock(one.frames) and _takes_a_lock(one.frames_after or one.frames):
            yield hit(Code.BLOCKED_DISTRIBUTED_LOCK, 0.88, *taken, *told, where)
        elif _polls(one) and any(
            str(client.get("command", "")).split("|")[0] in _LOCK_COMMANDS for client in clients
        ):
            note = "movement: it asks again and again, with commands that take a lock"
            yield hit(Code.BLOCKED_DISTRIBUTED_LOCK, 0.6, note, *taken, *told, where)
        elif _awaits_redis(case, one) and _asks_to_wait(one, clients):
            yield from _for_an_item(one, told, where)


def _lasting(lock: Payload) -> str:
    left = lock.get("ttl_s")
    return "which never ends by itself" if left is None else f"for {left} s more"


def _awaits_redis(case: Case, one: Thread) -> bool:
    return _is_in(one, _REDIS) and one.still and not just_heard(case, one)


def _asks_to_wait(one: Thread, clients: list[Payload]) -> bool:
    blocked = any("b" in str(client.get("flags", "")) for client in clients)
    return blocked or any(_FOR_AN_ITEM.search(frame.source) for frame in one.frames if frame.own)


def _for_an_item(one: Thread, told: list[str], where: str) -> Iterator[Diagnosis]:
    """A blocking command: nobody can tell a consumer without work from one that is forgotten."""
    gives_up = any(_GIVES_UP.search(frame.source) for frame in one.frames)
    if gives_up:
        note = "stacks: the command gives up after a time, and is given again"
        yield hit(Code.NONE_IDLE, 0.77, *told, note, where)
    yield hit(Code.BLOCKED_EXTERNAL, 0.5 if gives_up else 0.78, *told, where)


def _takes_a_lock(frames: tuple[Frame, ...]) -> bool:
    return any(
        frame.function in ("acquire", "__enter__", "do_acquire")
        and frame.file.endswith(("/lock.py", "/locks.py"))
        and any(name in frame.file for name in _REDIS)
        for frame in frames
    )


def _polls(one: Thread) -> bool:
    return one.syscall == "clock_nanosleep" and one.switches > 0


def _sqlite(case: Case) -> Iterator[Diagnosis]:
    """SQLite does not wait in the kernel: it sleeps and tries again."""
    for file in case.listed("databases", "sqlite"):
        held = file.get("held_by") or []
        other = next((one for one in held if one.get("pid") != case.pid), held[0] if held else None)
        waiter = next((one for one in case.threads if _polls(one) and not one.stack_moved), None)
        if other is None or waiter is None:
            continue
        command = " ".join(other.get("command_line") or [])[:80]
        line = f"databases: {file['file']} is locked by process {other['pid']} ({command})"
        own = other["pid"] == case.pid
        if own:
            line = f"databases: {file['file']} is locked by a connection of this very process"
        sure = 0.6 if own else 0.85
        yield hit(Code.BLOCKED_FILE_LOCK, sure, line, f"stacks: {waiter.where}")


def _is_in(one: Thread, files: tuple[str, ...]) -> bool:
    return any(name in frame.file for frame in one.frames[:12] for name in files)


def _waits(one: Payload) -> str:
    name = one.get("application") or "no name"
    return (
        f"databases: session {one['pid']} ({name}) is {one['state']}, "
        f"{one.get('wait_type') or 'no wait'} {one.get('wait') or ''} for {_seconds(one)}: "
        f"{_query(one)}"
    )


def _blocks(one: Payload, of: Payload) -> str:
    return (
        f"databases: {of['pid']} is blocked by pid {one['pid']}, application "
        f"{one.get('application') or 'without a name'}, {one.get('state')}, in its transaction for "
        f"{_seconds(one, 'transaction_s')}, last statement: {_query(one)}"
    )


def _seconds(one: Payload, key: str = "state_s") -> str:
    value = one.get(key)
    return "an unknown time" if value is None else f"{float(value):.1f} s"


def _query(one: Payload) -> str:
    return str(one.get("query") or "(not visible)").replace("\n", " ")[:_QUERY_CHARS]
