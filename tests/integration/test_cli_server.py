"""The command line on a PostgreSQL and a Redis: what it says of them, and never a password."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import servers
import stores
from click.testing import CliRunner, Result

from supervisor.cli.group import build
from supervisor.clock import SystemClock
from supervisor.model.record import NodeRecord, Owner, ProcessIdentity
from supervisor.node.process import own_identity
from supervisor.store import AutopsyRecord, Ledger, WorkerRecord, open_store

PASSWORD = "correct-horse"
SECRET_PREFIX = f"postgresql://boss:{PASSWORD}@"


class Office:
    """A new database and a Redis, and the command line on them."""

    def __init__(self, database: stores.Database, cache: servers.Redis, folder: Path) -> None:
        self.database = database
        self.queue = f"redis://:{PASSWORD}@127.0.0.1:{cache.port}/0"
        self.folder = folder
        self.url = database.url.replace("postgresql://postgres@", SECRET_PREFIX)
        self.port = database.server.port
        #: As people see it.
        self.name = f"postgresql+psycopg://boss:***@127.0.0.1:{self.port}/{database.name}"

    def run(self, *args: str, **env: str) -> Result:
        given = {
            "SUPERVISOR_STORE": self.url,
            "SUPERVISOR_QUEUE": self.queue,
            "SUPERVISOR_METRICS_LISTEN": "none",
            "XDG_STATE_HOME": str(self.folder),
            **env,
        }
        result = CliRunner(env=given).invoke(build(), list(args))
        assert PASSWORD not in result.output
        return result

    def ok(self, *args: str, **env: str) -> Any:
        result = self.run(*args, "--json", **env)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def found(self, *args: str, **env: str) -> tuple[int, list[tuple[str, str, str]]]:
        """Return the exit code of a check and what it found of servers."""
        result = self.run("check", "--json", *args, **env)
        return result.exit_code, [
            (one["about"], one["level"], one["text"])
            for one in json.loads(result.stdout)["findings"]
            if one["about"] in {"server", "store", "bell", "node", "clock", "settings"}
        ]

    def register(self, process: ProcessIdentity, name: str, *, lease_s: float = 60.0) -> str:
        """Write down a node with a lease."""
        node_id = f"{name}-1"
        with closing(open_store(self.url, create=True)) as store:
            record = NodeRecord(
                node_id=node_id, node_name=name, process=process, version="0.2.0",
                started_at=store.clock.now(),
            )  # fmt: skip
            with Ledger(store, store.clock).transaction() as tx:
                tx.register_node(record, lease_s)
        return node_id

    def claim(self, node_id: str, process: ProcessIdentity) -> str:
        """Let a node claim a task that is submitted now, with a worker of that identity."""
        task_id = str(self.ok("submit", "export")["tasks"][0]["task_id"])
        with closing(open_store(self.url, create=False)) as store:
            now = store.clock.now()
            worker = WorkerRecord(
                worker_id="w1", node_id=node_id, pid=process.pid,
                start_ticks=process.start_ticks, started_at=now,
            )  # fmt: skip
            with Ledger(store, store.clock).transaction() as tx:
                tx.record_workers([worker])
                tx.claim(
                    [Owner("w1", process.pid, process.start_ticks)],
                    node_id=node_id, queues=None, types={"export"}, now=now,
                )  # fmt: skip
        return task_id


@pytest.fixture(scope="module")
def cache() -> Iterator[servers.Redis]:
    """A Redis of our own, with a password; what it is told would disturb others."""
    made = servers.start_redis("--requirepass", PASSWORD)
    yield made
    made.stop()


@pytest.fixture
def office(
    postgresql: servers.PostgreSQL,
    cache: servers.Redis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Office]:
    monkeypatch.chdir(tmp_path)
    database = stores.Database(postgresql)
    with psycopg.connect(postgresql.dsn, autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'boss'").fetchone():
            connection.execute(f"CREATE ROLE boss SUPERUSER LOGIN PASSWORD '{PASSWORD}'")
    yield Office(database, cache, tmp_path)
    database.remove()


def told(found: list[tuple[str, str, str]], about: str) -> list[tuple[str, str]]:
    """Return what was found about one thing."""
    return [(level, text) for name, level, text in found if name == about]


NO_TABLES = ["list", "top", "queues", "nodes", "autopsy list", "show 8823134a", "logs 8823134a"]


@pytest.mark.parametrize("command", NO_TABLES)
def test_reading_commands_make_no_tables(office: Office, command: str) -> None:
    result = office.run(*command.split())
    assert (result.exit_code, result.stdout) == (69, "")
    assert result.stderr.splitlines() == [
        f"error: {office.name} holds no task store",
        "remedy: Run `supervisor db upgrade`.",
    ]
    assert office.database.query("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [
        (0,)
    ]


def test_a_store_is_made_by_whom_it_may(office: Office) -> None:
    code, found = office.found()
    assert code == 0
    assert told(found, "store") == [("warn", f"{office.name} holds no task store yet")]
    first = office.run("submit", "export")
    assert first.exit_code == 0
    assert f"note: made a new store at {office.name}\n" in first.stderr
    assert "made a new store" not in office.run("submit", "export").stderr
    assert office.ok("db", "upgrade")["store"] == office.name
    text = office.run("db", "upgrade").stdout
    assert text.startswith(f"{office.name} is ready (schema ")


def test_every_command_works_there(office: Office) -> None:
    task_id = office.ok("submit", "export", "--queue", "q")["tasks"][0]["task_id"]
    assert [task["task_id"] for task in office.ok("list")["tasks"]] == [task_id]
    assert office.ok("show", task_id[-8:])["waits"] == [
        "no node runs: start one with `supervisor run`"
    ]
    assert [view["in_queue"] for view in office.ok("queues")["queues"]] == [1]
    assert office.ok("pause", "q", "--reason", "x")["changed"] is True
    assert office.ok("resume", "q")["changed"] is True
    assert office.ok("top")["in_queue"] == 1
    assert office.ok("autopsy", "list") == {"autopsies": [], "unrecorded": []}
    assert office.ok("cancel", task_id, "--reason", "x")["tasks"][0]["state"] == "CANCELED"
    assert office.ok("history", task_id)["history"][-1]["to_state"] == "CANCELED"
    assert "has not run yet" in office.run("logs", task_id).stderr


def test_passwords_are_shown_nowhere(office: Office) -> None:
    settings = office.ok("config")["settings"]
    assert settings["store"]["value"] == office.name
    assert settings["queue"]["value"] == office.queue.replace(PASSWORD, "***")
    assert office.name in office.run("config").stdout
    wrong = office.url.replace(str(office.port), "1")
    for args in (("list",), ("check",), ("submit", "export")):
        assert office.run(*args, "--store", wrong).exit_code == 69
        assert office.run(*args, "--store", wrong, "--json").exit_code == 69
        assert office.run(*args, "--store", office.url.replace("sql://", "sqlx://")).exit_code == 2


def test_a_password_may_be_left_to_libpq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    server = servers.start_postgresql(password=PASSWORD)
    try:
        keys = tmp_path / "pgpass"
        keys.write_text(f"127.0.0.1:{server.port}:postgres:postgres:{PASSWORD}\n", "utf-8")
        keys.chmod(0o600)
        places = {"SUPERVISOR_STORE": server.url, "PGPASSFILE": str(tmp_path / "none")}
        denied = CliRunner(env=places).invoke(build(), ["db", "upgrade"])
        assert denied.exit_code == 69
        assert denied.stderr.endswith("remedy: Give the password in PGPASSWORD or ~/.pgpass.\n")
        for given in ({"PGPASSWORD": PASSWORD}, {"PGPASSFILE": str(keys)}):
            result = CliRunner(env={**places, **given}).invoke(build(), ["db", "upgrade"])
            assert (result.exit_code, PASSWORD in result.output) == (0, False)
    finally:
        server.stop()


def test_check_says_what_the_servers_are_like(office: Office) -> None:
    office.ok("db", "upgrade")
    code, found = office.found()
    assert code == 0
    assert told(found, "store") == [("ok", f"{office.name} is reachable, writable and up to date")]
    server = told(found, "server")
    assert server[0][0] == "ok"
    assert server[0][1].startswith(f"{office.name} is a PostgreSQL 1")
    assert server[1:] == [
        ("warn", "fsync is off: at a power cut the database may be lost"),
        ("warn", "full_page_writes is off: at a power cut the database may be lost"),
        (
            "warn",
            "synchronous_commit is off: at a power cut tasks that were acknowledged may be lost",
        ),
    ]
    [(level, text)] = told(found, "bell")
    shown = office.queue.replace(PASSWORD, "***")
    assert (level, text.startswith(f"{shown} is a Redis ")) == ("ok", True)
    safe = office.found("--store", f"{office.url}?options=-c%20synchronous_commit%3Don")[1]
    assert [text.split()[0] for _, text in told(safe, "server")[1:]] == [
        "fsync",
        "full_page_writes",
    ]


def test_check_tells_of_a_redis_that_may_lose_ids_and_of_one_that_is_away(
    office: Office, cache: servers.Redis
) -> None:
    from redis import Redis

    with closing(Redis.from_url(office.queue)) as redis:
        redis.config_set("maxmemory-policy", "allkeys-lru")
        code, found = office.found()
        redis.config_set("maxmemory-policy", "noeviction")
    assert (code, [level for level, _ in told(found, "bell")]) == (0, ["ok", "warn"])
    assert "maxmemory-policy is allkeys-lru" in told(found, "bell")[1][1]
    code, found = office.found("--queue", f"redis://:{PASSWORD}@127.0.0.1:1/0")
    assert (code, [level for level, _ in told(found, "bell")]) == (69, ["fail"])


def test_a_redis_is_refused_where_the_store_is_a_file(office: Office) -> None:
    code, found = office.found("--store", f"sqlite:///{office.folder}/a.db")
    assert code == 2
    assert "leave queue at none" in told(found, "settings")[0][1]


def test_check_tells_of_a_pooler(office: Office) -> None:
    pooler = servers.start_pgbouncer(office.database.server)
    try:
        url = pooler.url(office.database.name)
        office.ok("db", "upgrade", "--store", url)
        code, found = office.found("--store", url, "--queue", "none")
    finally:
        pooler.stop()
    assert code == 0
    assert told(found, "server")[0][1].endswith(" through a pooler")
    assert [level for level, _ in told(found, "bell")] == ["warn"]


def test_check_tells_of_a_database_that_only_reads(office: Office) -> None:
    office.ok("db", "upgrade")
    only = f"{office.url}?options=-c%20default_transaction_read_only%3Don"
    code, found = office.found("--store", only)
    [(level, text)] = told(found, "store")
    assert (code, level, text.endswith(" is read-only")) == (69, "fail", True)


def test_check_tells_of_rights_that_are_missing(office: Office) -> None:
    clerk = f"clerk_{office.database.name}"
    url = office.database.url.replace("postgres@", f"{clerk}@")
    with psycopg.connect(office.database.url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {clerk} LOGIN")  # type: ignore[arg-type]
        try:
            code, found = office.found("--store", url)
            assert code == 69
            assert told(found, "store")[0][1].endswith(", and its user may not make one")
            office.ok("db", "upgrade")
            connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {clerk}")  # type: ignore[arg-type]
            code, found = office.found("--store", url)
            [(level, text)] = told(found, "store")
            assert (code, level) == (69, "fail")
            assert text.startswith("its user may not read and write alerts, api_tokens, ")
            assert office.run("submit", "export", "--store", url).exit_code == 69
        finally:
            connection.execute(f"DROP OWNED BY {clerk}")  # type: ignore[arg-type]
            connection.execute(f"DROP ROLE {clerk}")  # type: ignore[arg-type]


def test_nodes_are_listed_with_their_leases(office: Office) -> None:
    far = replace(own_identity(), boot_id="another")
    here = office.register(own_identity(), "here")
    silent = office.register(far, "silent", lease_s=0.05)
    ended = office.register(far, "ended")
    with (
        closing(open_store(office.url, create=False)) as store,
        Ledger(store, store.clock).transaction() as tx,
    ):
        tx.end_node(ended, store.clock.now(), "received SIGTERM")
        assert tx.renew(here, 60.0, 2.5) is True
    SystemClock().sleep(0.06)
    listed = {node["node_id"]: node for node in office.ok("nodes", "--all")["nodes"]}
    told_state = {
        name: (one["state"], one["here"], one["version"], one["pid"])
        for name, one in listed.items()
    }
    pid = own_identity().pid
    assert told_state == {
        here: ("running", True, "0.2.0", pid),
        silent: ("lease over", False, "0.2.0", pid),
        ended: ("ended", False, "0.2.0", pid),
    }
    assert 50 < listed[here]["lease_left_s"] <= 60
    assert listed[here]["skew_s"] == 2.5
    assert listed[silent]["lease_left_s"] < 0
    assert {node["node_id"] for node in office.ok("nodes")["nodes"]} == {here, silent}
    text = office.run("nodes", "--all").stdout
    assert "lease over since " in text
    assert "received SIGTERM" in text
    assert "+2.500 s" in text
    _, found = office.found()
    assert [level for level, _ in told(found, "node")] == ["warn", "ok"]
    assert told(found, "clock") == [
        ("warn", "the clock of host here is 2.5 s ahead of the database's")
    ]


def test_hosts_of_one_name_are_told(office: Office) -> None:
    office.register(replace(own_identity(), boot_id="another"), "web")
    _, found = office.found("--node-name", "web")
    assert ("warn", "a node of another host is called web as well") in told(found, "node")
    _, found = office.found("--node-name", "web-2")
    assert [level for level, _ in told(found, "node")] == ["ok"]


def test_a_task_of_another_host_is_looked_at_there(office: Office) -> None:
    far = replace(own_identity(), boot_id="another")
    node_id = office.register(far, "far")
    task_id = office.claim(node_id, far)
    refused = office.run("autopsy", "capture", task_id)
    assert refused.stderr.splitlines() == [
        f"error: {task_id} runs on host far (or in another container of this one)",
        f"remedy: Run it there: `supervisor autopsy capture {task_id}`.",
    ]
    assert "  runs on    far\n" in office.run("show", task_id).stdout
    assert office.run("logs", task_id).stderr.splitlines()[1] == (
        f"note: Run it there: `supervisor logs {task_id}`."
    )


def test_a_bundle_of_another_host_is_looked_for_there(office: Office) -> None:
    far = replace(own_identity(), boot_id="another")
    task_id = office.claim(office.register(far, "far"), far)
    with closing(open_store(office.url, create=False)) as store:
        record = AutopsyRecord(
            autopsy_id="autopsy-1", task_id=task_id, attempt=1, node_id="far-1", pid=1,
            path="/var/lib/far/autopsy-1.zip", status="complete", verdict="stalled",
            diagnosis="blocked.sleep", diagnosis_json="[]", created_at=store.clock.now(),
            bytes=9, ms=3,
        )  # fmt: skip
        with Ledger(store, store.clock).transaction() as tx:
            tx.record_autopsy(record)
    result = office.run("autopsy", "show", task_id)
    away = "the bundle /var/lib/far/autopsy-1.zip is not there"
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        f"error: {away}; its diagnosis was blocked.sleep",
        "remedy: Look on host far; old bundles are removed after autopsy_keep_days.",
    ]


def test_a_node_whose_lease_is_over_has_said_its_last_word(office: Office) -> None:
    far = replace(own_identity(), boot_id="another")
    node_id = office.register(far, "far", lease_s=0.5)
    task_id = office.claim(node_id, far)
    SystemClock().sleep(0.6)
    shown = office.run("show", task_id).stdout
    assert "gone (host far, its lease is over since " in shown
    assert office.ok("list")["tasks"][0]["node_gone"] is True
    [node] = office.ok("top")["nodes"]
    assert node["gone"] is True
    assert office.ok("queues")["node_runs"] is False


def test_ages_are_by_the_clock_of_the_store(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of this host is an hour ahead: a task is due when the store says so."""
    right = SystemClock.now
    monkeypatch.setattr(SystemClock, "now", lambda self: right(self) + timedelta(seconds=3610))
    office.ok("submit", "export")
    row = office.run("list").stdout.splitlines()[1].split()
    assert row[7] in {"s", "ms"}
    assert [view["in_queue"] for view in office.ok("queues")["queues"]] == [1]
    [(age_s,)] = office.database.query(
        "SELECT abs(extract(epoch FROM now() - created_at)) FROM tasks"
    )
    assert age_s < 60
    _, found = office.found()
    assert told(found, "clock") == [
        ("warn", "the clock of this host is 1 h 00 m ahead of the database's")
    ]
