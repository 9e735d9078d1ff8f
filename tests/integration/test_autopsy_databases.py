"""The section `databases` against real servers: who blocks whom, and with which rights."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import uuid
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from harness import eventually
from servers import PostgreSQL, Redis, proxy, start_postgresql, start_redis

from autopsy.bundle import Bundle, read_bundle
from autopsy.collect.database import sqlite
from autopsy.collect.database.address import POSTGRESQL, REDIS, found_in
from autopsy.collect.database.asking import Asking
from autopsy.collect.database.collecting import TIME_BOX_S, collector
from autopsy.collect.database.server import servers
from autopsy.collect.holder import Holders
from autopsy.collect.patient import open_patient
from autopsy.section import Payload, Skipped

PASSWORD = "correct-horse-battery"
WAITS = """
import psycopg, sys
connection = psycopg.connect(sys.argv[1], autocommit=True, application_name="orders")
print("connected", flush=True)
connection.execute(sys.argv[2])
"""
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def patient() -> Iterator[Start]:
    """Run a program as the patient, and return when it has printed its first line."""
    running: list[subprocess.Popen[str]] = []

    def start(
        source: str, *arguments: str, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        one = subprocess.Popen(
            [sys.executable, "-c", source, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        running.append(one)
        assert one.stdout is not None
        assert one.stdout.readline()
        return one

    yield start
    for one in running:
        one.send_signal(signal.SIGKILL)
        one.communicate()


@pytest.fixture(scope="module")
def guarded() -> Iterator[PostgreSQL]:
    """A PostgreSQL that wants a password, with a user that may not see much."""
    one = start_postgresql("max_prepared_transactions=5", password=PASSWORD)
    with psycopg.connect(one.local_dsn, autocommit=True) as connection:
        connection.execute(f"create role clerk login password '{PASSWORD}'")
        connection.execute("create table orders (id int primary key, n int)")
        connection.execute("insert into orders values (1, 0), (2, 0)")
        connection.execute("grant all on orders to clerk")
    yield one
    one.stop()


@pytest.fixture
def orders(postgresql: PostgreSQL) -> Iterator[psycopg.Connection[Any]]:
    """A session called `holder` that has locked row 1 of a fresh table `orders`."""
    with psycopg.connect(postgresql.dsn, application_name="holder") as connection:
        connection.execute("drop table if exists orders")
        connection.execute("create table orders (id int primary key, n int)")
        connection.execute("insert into orders values (1, 0), (2, 0)")
        connection.commit()
        connection.execute("update orders set n = 41 where id = 1")
        yield connection


def databases(process: subprocess.Popen[str], asking: Asking | None = None) -> Payload:
    with open_patient(process.pid) as one:
        return collector(Holders(), asking or Asking())(one)


def when_waiting(process: subprocess.Popen[str], kind: str = "Lock") -> Payload:
    """Return the one PostgreSQL server's entry once a session of ours waits in it like that."""

    def look() -> Payload | None:
        [server] = databases(process)["postgresql"]
        ours = [one for one in server["backends"] if one["ours"]]
        return server if any(one["wait_type"] == kind for one in ours) else None

    return eventually(look, 15, f"it waits for {kind}")


def examined(
    process: subprocess.Popen[str], out: Path, *flags: str, env: Mapping[str, str] | None = None
) -> tuple[Bundle, str]:
    """Run the command; return the bundle and all that was printed."""
    done = subprocess.run(
        [sys.executable, "-m", "autopsy", str(process.pid), "--out", str(out), *flags],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=40,
        check=True,
        env={**os.environ, **(env or {})},
    )
    bundle = read_bundle(out)
    [entry] = [one for one in bundle.entries if one.name == "databases"]
    assert (entry.status, entry.reason) == ("ok", "")
    return bundle, done.stdout + done.stderr


class TestPostgreSQL:
    def test_a_row_lock_names_the_blocker_its_query_its_application_and_how_long(
        self,
        patient: Start,
        postgresql: PostgreSQL,
        orders: psycopg.Connection[Any],
        tmp_path: Path,
    ) -> None:
        process = patient(WAITS, postgresql.dsn, "update orders set n = 42 where id = 1")
        blocker = orders.info.backend_pid
        server = when_waiting(process)
        assert (server["server"], server["status"]) == (f"127.0.0.1:{postgresql.port}", "ok")
        assert (server["reason"], server["matched_by"], server["left_out"]) == ("", ["socket"], 0)
        waiter, holder = server["backends"]
        assert (waiter["ours"], waiter["depth"], waiter["blocked_by"]) == (True, 0, [blocker])
        assert (waiter["application"], waiter["user"]) == ("orders", "postgres")
        assert (waiter["state"], waiter["wait_type"]) == ("active", "Lock")
        assert waiter["query"] == "update orders set n = ? where id = ?"
        wanted = [lock for lock in waiter["locks"] if not lock["granted"]]
        assert [lock["type"] for lock in wanted] == ["transactionid"]
        assert {lock["relation"] for lock in waiter["locks"]} >= {"orders", "orders_pkey"}
        assert (holder["ours"], holder["depth"], holder["pid"]) == (False, 1, blocker)
        assert (holder["application"], holder["state"]) == ("holder", "idle in transaction")
        assert holder["query"] == "update orders set n = ? where id = ?"
        time.sleep(max(0.0, 1.1 - holder["transaction_s"]))

        bundle, printed = examined(process, tmp_path / "a.zip")
        [server] = bundle.sections["databases"]["postgresql"]
        assert server["backends"][1]["client_process"]["pid"] == os.getpid()
        assert bundle.heading.diagnosis[0].code == "blocked.db_lock"
        [line] = [one for one in printed.splitlines() if "is blocked by pid" in one][:1]
        assert f"is blocked by pid {blocker}, application holder, idle in transaction" in line
        assert "update orders set n = ? where id = ?" in line
        seconds = float(line.partition("in its transaction for ")[2].partition(" s")[0])
        assert 1.0 <= seconds <= 120
        assert "41" not in line

    def test_whom_we_block_is_told_too(
        self, patient: Start, postgresql: PostgreSQL, orders: psycopg.Connection[Any]
    ) -> None:
        orders.rollback()
        source = (
            "import psycopg, sys\nconnection = psycopg.connect(sys.argv[1])\n"
            "connection.execute('update orders set n = 1 where id = 1')\n"
            "print('held', flush=True)\nsys.stdin.read()\n"
        )
        holder = patient(source, postgresql.dsn)
        victim = patient(WAITS, postgresql.dsn, "update orders set n = 2 where id = 1")
        when_waiting(victim)
        [server] = databases(holder)["postgresql"]
        ours, blocked = server["backends"]
        assert (ours["ours"], ours["depth"], ours["state"]) == (True, 0, "idle in transaction")
        assert (blocked["ours"], blocked["depth"]) == (False, -1)
        assert blocked["blocked_by"] == [ours["pid"]]
        assert blocked["client_process"]["pid"] == victim.pid

    def test_advisory_locks_have_their_key(
        self, patient: Start, postgresql: PostgreSQL, orders: psycopg.Connection[Any]
    ) -> None:
        key = 5_000_000_000
        orders.execute("select pg_advisory_lock(%s)", [key])
        orders.execute("select pg_advisory_lock(7, 8)")
        process = patient(WAITS, postgresql.dsn, f"select pg_advisory_lock({key})")
        waiter, holder = when_waiting(process)["backends"]
        wanted = {"type": "advisory", "relation": None, "mode": "ExclusiveLock"}
        assert wanted | {"granted": False, "key": str(key)} in waiter["locks"]
        assert wanted | {"granted": True, "key": "7, 8"} in holder["locks"]
        assert waiter["query"] == "select pg_advisory_lock(?)"

    def test_a_unix_domain_socket_leads_to_the_session_by_its_process(
        self, patient: Start, postgresql: PostgreSQL, orders: psycopg.Connection[Any]
    ) -> None:
        process = patient(WAITS, postgresql.local_dsn, "update orders set n = 42 where id = 1")
        server = when_waiting(process)
        assert server["server"] == f"{postgresql.directory}/.s.PGSQL.{postgresql.port}"
        assert server["matched_by"] == ["socket"]
        waiter, holder = server["backends"]
        assert (waiter["client"], waiter["blocked_by"]) == ("local", [holder["pid"]])

    def test_a_slow_statement_waits_for_no_lock(
        self, patient: Start, postgresql: PostgreSQL
    ) -> None:
        process = patient(WAITS, postgresql.dsn, "select pg_sleep(1000)")
        [backend] = when_waiting(process, "Timeout")["backends"]
        with psycopg.connect(postgresql.dsn) as connection:  # it would outlive its client
            connection.execute("select pg_terminate_backend(%s)", [backend["pid"]])
        assert (backend["wait"], backend["query"]) == ("PgSleep", "select pg_sleep(?)")
        assert backend["blocked_by"] == []

    def test_a_prepared_transaction_blocks_as_process_0(
        self, patient: Start, guarded: PostgreSQL
    ) -> None:
        with psycopg.connect(guarded.local_dsn, autocommit=True) as connection:
            connection.execute("begin")
            connection.execute("update orders set n = 1 where id = 2")
            connection.execute("prepare transaction 'forgotten'")
            try:
                process = patient(WAITS, guarded.local_dsn, "update orders set n = 2 where id = 2")
                _, prepared = when_waiting(process)["backends"]
            finally:
                connection.execute("rollback prepared 'forgotten'")
        assert (prepared["pid"], prepared["depth"]) == (0, 1)
        assert prepared["state"] == "prepared transaction"
        assert prepared["query"] == "PREPARE TRANSACTION forgotten"

    def test_behind_a_proxy_only_the_name_of_an_attempt_is_trusted(
        self, patient: Start, postgresql: PostgreSQL, orders: psycopg.Connection[Any]
    ) -> None:
        with proxy(postgresql.port) as port:
            dsn = f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
            process = patient(WAITS, dsn, "update orders set n = 42 where id = 1")
            address = f"postgresql://postgres@127.0.0.1:{port}/postgres"
            seen = eventually(lambda: waiters(orders), 15, "it waits")
            [server] = databases(process, Asking(addresses=(address,)))["postgresql"]
            assert (server["status"], server["backends"]) == ("ok", [])
            assert "a pooler or address translation" in server["reason"]
            asking = Asking(addresses=(address,), application="orders")
            [server] = databases(process, asking)["postgresql"]
            assert server["matched_by"] == ["application name"]
            assert [one["pid"] for one in server["backends"] if one["ours"]] == seen


class TestRights:
    """Who may ask, and that nobody learns the password."""

    @pytest.fixture
    def waiting(self, patient: Start, guarded: PostgreSQL) -> Iterator[Start]:
        """Start a patient as `clerk`, who waits for a row that the superuser has."""
        with psycopg.connect(guarded.local_dsn, application_name="boss") as boss:
            boss.execute("update orders set n = 1 where id = 1")

            def start(env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
                dsn = f"host=127.0.0.1 port={guarded.port} dbname=postgres user=clerk"
                source = WAITS.replace("sys.argv[1]", f"sys.argv[1] + ' password={PASSWORD}'")
                process = patient(source, dsn, "update orders set n = 2 where id = 1", env=env)
                eventually(lambda: waiters(boss), 15, "it waits")
                return process

            yield start
            boss.rollback()

    def no_password_in(self, out: Path, printed: str) -> None:
        with zipfile.ZipFile(out) as archive:
            pages = [archive.read(name).decode() for name in archive.namelist()]
        # The source line of this test's own program shows in its stack: not of this section.
        assert not [one for one in (*pages, printed) if PASSWORD in one]

    def test_without_an_account_the_reason_has_a_remedy_and_the_title_is_left(
        self, waiting: Start, guarded: PostgreSQL
    ) -> None:
        process = waiting()
        found = databases(process)
        [server] = found["postgresql"]
        assert (server["status"], server["backends"]) == ("refused", [])
        assert "--database postgresql://USER@HOST" in server["reason"]
        [local] = found["local_servers"]
        assert local["title"].startswith("postgres: clerk postgres 127.0.0.1(")
        assert local["title"].endswith("UPDATE waiting")

    def test_the_account_in_its_environment_is_used_and_what_it_may_not_see_is_said(
        self, waiting: Start, guarded: PostgreSQL, tmp_path: Path
    ) -> None:
        url = f"postgresql+psycopg://clerk:{PASSWORD}@localhost:{guarded.port}/postgres?x=y"
        process = waiting({"DATABASE_URL": url})
        bundle, printed = examined(process, tmp_path / "a.zip")
        [server] = bundle.sections["databases"]["postgresql"]
        assert server["status"] == "ok"
        ours, blocker = server["backends"]
        assert (ours["user"], ours["blocked_by"]) == ("clerk", [blocker["pid"]])
        assert (blocker["state"], blocker["query"]) == ("hidden", "")
        assert server["reason"] == (
            "sessions of other users are hidden from clerk: grant pg_monitor to clerk"
        )
        self.no_password_in(tmp_path / "a.zip", printed)

    def test_the_variables_of_libpq_are_used(self, waiting: Start, guarded: PostgreSQL) -> None:
        env = {"PGPASSWORD": PASSWORD, "PGUSER": "clerk", "PGPORT": str(guarded.port)}
        [server] = databases(waiting(env))["postgresql"]
        assert server["reason"].startswith("sessions of other users")
        assert server["status"] == "ok"

    def test_an_account_that_we_were_given_comes_first(
        self, waiting: Start, guarded: PostgreSQL, tmp_path: Path
    ) -> None:
        url = f"postgresql://postgres:{PASSWORD}@127.0.0.1:{guarded.port}/postgres"
        process = waiting({"DATABASE_URL": url.replace("postgres:", "clerk:")})
        bundle, printed = examined(
            process, tmp_path / "a.zip", env={"AUTOPSY_DATABASES": f"{url}\n"}
        )
        [server] = bundle.sections["databases"]["postgresql"]
        assert (server["status"], server["reason"]) == ("ok", "")
        assert [one["application"] for one in server["backends"]] == ["orders", "boss"]
        self.no_password_in(tmp_path / "a.zip", printed)
        by_option, printed = examined(process, tmp_path / "b.zip", "--database", url)
        assert by_option.sections["databases"]["postgresql"][0]["reason"] == ""
        self.no_password_in(tmp_path / "b.zip", printed)

    def test_a_password_for_another_server_is_not_sent(
        self, waiting: Start, guarded: PostgreSQL
    ) -> None:
        elsewhere = f"postgresql://clerk:{PASSWORD}@192.0.2.7:{guarded.port}/postgres"
        other_port = f"postgresql://clerk:{PASSWORD}@127.0.0.1:1/postgres"
        [server] = databases(waiting({"A_URL": elsewhere, "B_URL": other_port}))["postgresql"]
        assert server["status"] == "refused"

    def test_our_own_password_is_not_sent(
        self, waiting: Start, guarded: PostgreSQL, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        process = waiting({})
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
        monkeypatch.setenv("PGHOSTADDR", "192.0.2.7")
        [server] = databases(process)["postgresql"]
        assert (server["status"], "no password supplied" in server["reason"]) == ("refused", True)

    def test_asking_can_be_switched_off(
        self, waiting: Start, guarded: PostgreSQL, tmp_path: Path
    ) -> None:
        url = f"postgresql://clerk:{PASSWORD}@127.0.0.1:{guarded.port}/postgres"
        before = guarded.log.count("autopsy")
        process = waiting({"DATABASE_URL": url})
        bundle, _ = examined(process, tmp_path / "a.zip", "--no-databases")
        [server] = bundle.sections["databases"]["postgresql"]
        assert (server["status"], server["backends"]) == ("not asked", [])
        assert len(bundle.sections["databases"]["local_servers"]) == 1
        assert guarded.log.count("autopsy") == before


def test_a_server_that_is_stopped_costs_no_more_than_the_time_box(
    patient: Start, redis_server: Redis, tmp_path: Path
) -> None:
    own = start_postgresql()
    try:
        source = (
            "import psycopg, redis, sys\n"
            "a = psycopg.connect(sys.argv[1]); b = redis.Redis(port=int(sys.argv[2]))\n"
            "b.ping()\nprint('connected', flush=True)\na.execute('select 1')\nb.blpop(['none'])\n"
        )
        process = patient(source, own.dsn, str(redis_server.port))
        os.kill(own.pid, signal.SIGSTOP)
        began = time.monotonic()
        found = databases(process)
        assert time.monotonic() - began < TIME_BOX_S + 0.5
        [server] = found["postgresql"]
        assert (server["status"], server["backends"]) == ("unreachable", [])
        assert server["reason"].startswith("no answer within 1.")
        assert found["redis"][0]["status"] == "ok"
    finally:
        os.kill(own.pid, signal.SIGCONT)
        own.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may ask as somebody else")
def test_root_is_let_in_as_the_user_that_the_kernel_names(patient: Start) -> None:
    """As Debian sets PostgreSQL up: `peer` on the unix-domain socket."""
    own = start_postgresql(password=PASSWORD, local="peer")
    try:
        source = (
            "import os, pwd, psycopg, sys\nuser = pwd.getpwnam('postgres')\n"
            "os.setgid(user.pw_gid); os.setuid(user.pw_uid)\n"
            "one = psycopg.connect(sys.argv[1]); print('connected', flush=True)\n"
            "one.execute('select pg_sleep(1000)')\n"
        )
        process = patient(source, own.local_dsn)
        [backend] = when_waiting(process, "Timeout")["backends"]
        assert (backend["user"], backend["ours"]) == ("postgres", True)
        assert os.geteuid() == 0
    finally:
        own.stop()


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="only root makes a namespace"
)
def test_a_server_in_the_network_of_a_container_is_asked_in_there(
    patient: Start, redis_server: Redis
) -> None:
    """On its loopback, where another server has the same port on ours."""
    source = (
        "import ctypes, fcntl, os, redis, socket, struct, subprocess, sys, time\n"
        "assert ctypes.CDLL(None).unshare(0x40000000) == 0\n"
        "up = struct.pack('16sh', b'lo', 1)\n"
        "fcntl.ioctl(socket.socket(), 0x8914, up)\n"
        "port = sys.argv[1]\n"
        "server = subprocess.Popen(['setpriv', '--pdeathsig=KILL', '--', 'redis-server', '--port',"
        " port, '--save', ''], stdout=subprocess.DEVNULL)\n"
        "one = redis.Redis(port=int(port), client_name='inside', socket_timeout=None)\n"
        "for _ in range(500):\n"
        "    try: one.ping(); break\n"
        "    except redis.ConnectionError: time.sleep(0.02)\n"
        "print('connected', flush=True)\n"
        "one.blpop(['no-such-list'])\n"
    )
    process = patient(source, str(redis_server.port))
    server = eventually(lambda: TestRedis().look(process), 10, "it waits")
    [client] = [one for one in server["clients"] if one["ours"]]
    assert (client["name"], client["blocked"]) == ("inside", True)
    assert server["connected"] == 2


def test_a_server_that_is_gone_is_unreachable(patient: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        source = (
            "import socket, sys\nline = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
            "print('connected', flush=True)\nline.recv(1)\n"
        )
        process = patient(source, str(port))
        accepted, _ = server.accept()
    with accepted:
        address = f"postgresql://somebody@127.0.0.1:{port}/app"
        [entry] = databases(process, Asking(addresses=(address,)))["postgresql"]
    assert entry["status"] == "unreachable"
    assert "refused" in entry["reason"]


def test_a_process_without_databases_has_nothing_to_show(patient: Start) -> None:
    process = patient("import sys\nprint('ready', flush=True)\nsys.stdin.read()\n")
    with pytest.raises(Skipped, match="no connection to PostgreSQL or Redis"):
        databases(process)


class TestRedis:
    SOURCE = (
        "import redis, sys\n"
        "one = redis.Redis.from_url(sys.argv[1], client_name='mail', socket_timeout=None)\n"
        "one.ping()\nprint('connected', flush=True)\none.blpop(['no-such-list'])\n"
    )

    def look(self, process: subprocess.Popen[str], asking: Asking | None = None) -> Payload | None:
        [server] = databases(process, asking)["redis"]
        mine = [one for one in server["clients"] if one["ours"] and one["command"] == "blpop"]
        return server if mine else None

    def test_a_client_that_waits_is_blocked_in_its_command(
        self, patient: Start, redis_server: Redis
    ) -> None:
        process = patient(self.SOURCE, redis_server.url)
        server = eventually(lambda: self.look(process), 10, "it waits")
        [client] = [one for one in server["clients"] if one["ours"]]
        assert (client["name"], client["command"], client["blocked"]) == ("mail", "blpop", True)
        assert (server["status"], server["reason"]) == ("ok", "")
        assert server["server"] == f"127.0.0.1:{redis_server.port}"
        assert server["blocked"] >= 1
        [local] = databases(process)["local_servers"]
        assert (local["pid"], local["name"]) == (redis_server.pid, "redis")

    def test_locks_that_it_may_be_after_are_told_with_owner_and_end(
        self, patient: Start, redis_server: Redis
    ) -> None:
        source = (
            "import redis, sys\none = redis.Redis.from_url(sys.argv[1])\n"
            "one.set('report-lock', 'worker 7'); one.set('LOCK:mail', 'x', px=100_000)\n"
            "one.hset('lock-table', 'a', 1); one.set('other', 'y')\n"
            "one.set('clock:1', 'z'); one.set('BLOCKED', 'z')\n"
            "lock = one.lock('report-lock'); print('waits', flush=True); lock.acquire()\n"
        )
        process = patient(source, redis_server.url.replace("/0", "/5"))
        [server] = databases(process)["redis"]
        locks = {one["key"]: (one["value"], one["ttl_s"]) for one in server["locks"]}
        assert locks.pop("LOCK:mail")[1] == pytest.approx(100, abs=10)
        assert locks == {"report-lock": ("worker 7", None), "lock-table": ("", None)}

    def test_a_password_is_taken_from_the_environment(self, patient: Start) -> None:
        own = start_redis("--requirepass", PASSWORD)
        try:
            url = own.url.replace("redis://", f"redis://:{PASSWORD}@")
            process = patient(self.SOURCE, url, env={"CACHE": url})
            eventually(lambda: self.look(process), 10, "it waits")
        finally:
            own.stop()

    def test_without_the_password_it_says_what_is_missing(self, patient: Start) -> None:
        own = start_redis("--requirepass", PASSWORD)
        try:
            source = self.SOURCE.replace("sys.argv[1]", f"'redis://:{PASSWORD}@' + sys.argv[1]")
            process = patient(source, f"127.0.0.1:{own.port}/0")
            [server] = databases(process)["redis"]
            assert (server["status"], server["clients"]) == ("refused", [])
            assert server["reason"].startswith("NOAUTH")
            assert server["reason"].endswith("--database redis://:PASSWORD@HOST")
        finally:
            own.stop()

    def test_one_that_does_not_answer_is_said_to(self, patient: Start) -> None:
        own = start_redis()
        try:
            process = patient(self.SOURCE, own.url)
            os.kill(own.pid, signal.SIGSTOP)
            [server] = databases(process)["redis"]
            assert (server["status"], server["clients"]) == ("unreachable", [])
            assert server["reason"] == "it did not answer within 0.4 s"
        finally:
            os.kill(own.pid, signal.SIGCONT)
            own.stop()


class TestSQLite:
    HOLDER = (
        "import sqlite3, sys\n"
        "one = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "one.execute('begin ' + sys.argv[2])\nprint('held', flush=True)\nsys.stdin.read()\n"
    )
    SOURCE = (
        "import sqlite3, sys\n"
        "one = sqlite3.connect(sys.argv[1], timeout=1000, isolation_level=None)\n"
        "one.execute('select count(*) from t').fetchone()\nprint('open', flush=True)\n"
        "sys.stdin.readline()\none.execute('insert into t values (1)')\n"
    )

    @pytest.fixture(params=["delete", "wal"])
    def file(self, request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
        path = tmp_path / f"data-{uuid.uuid4().hex}"  # a name that says nothing
        with contextlib.closing(sqlite3.connect(path)) as made:
            made.execute(f"pragma journal_mode = {request.param}")
            made.execute("create table t (x)")
        return path, "wal" if request.param == "wal" else "rollback"

    @pytest.mark.parametrize("begin", ["immediate", "exclusive"])
    def test_the_writer_is_named(self, patient: Start, file: tuple[Path, str], begin: str) -> None:
        path, journal = file
        process = patient(self.SOURCE, str(path))
        holder = patient(self.HOLDER, str(path), begin)
        [entry] = sqlite.files(process.pid)
        assert (entry["file"], entry["journal"]) == (str(path), journal)
        held = [one for one in entry["held_by"] if one["pid"] == holder.pid]
        kind = "exclusive" if begin == "exclusive" else "reserved"
        assert [one["kind"] for one in held] == ["writing to the log" if journal == "wal" else kind]
        assert held[0]["own"] is False
        assert held[0]["command_line"][-2:] == [str(path), begin]

    def test_looking_gives_up_no_lock_of_ours(self, patient: Start, tmp_path: Path) -> None:
        path = tmp_path / "data.sqlite3"
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as ours:
            ours.execute("create table t (x)")
            process = patient(self.SOURCE, str(path))
            ours.execute("begin immediate")
            for _ in range(2):
                [entry] = sqlite.files(process.pid)
                assert [(one["pid"], one["kind"]) for one in entry["held_by"]] == [
                    (os.getpid(), "reserved")
                ]

    def test_a_lock_of_its_own_is_told_as_that(
        self, patient: Start, file: tuple[Path, str]
    ) -> None:
        source = self.SOURCE.replace("sys.stdin.readline()\n", "").replace(
            "print(", "one.execute('begin immediate'); print("
        )
        source = source.replace("one.execute('insert into t values (1)')", "sys.stdin.read()")
        [entry] = sqlite.files(patient(source, str(file[0])).pid)
        assert [one["own"] for one in entry["held_by"]][:1] == [True]

    def test_other_files_are_none(self, patient: Start, tmp_path: Path) -> None:
        path = tmp_path / "notes.txt"
        path.write_text("SQLite is not the format of this file\n")
        source = "import sys\none = open(sys.argv[1])\nprint('open', flush=True)\nsys.stdin.read()"
        assert sqlite.files(patient(source, str(path)).pid) == []


NOBODY = 2**22 + 1  # a pid that cannot be: nothing is loaded in it


def entry(fd: int, peer: str, process: str = "", kind: str = "tcp", title: str = "") -> dict:
    return {
        "fd": fd,
        "inode": 1000 + fd,
        "kind": kind,
        "state": "ESTABLISHED" if "tcp" in kind else "CONNECTED",
        "local": "127.0.0.1:40000" if "tcp" in kind else "",
        "peer": peer,
        "peer_process": {"pid": 1, "name": process, "command_line": [title]} if process else None,
    }


@pytest.mark.parametrize(
    ("one", "known", "expected"),
    [
        (entry(3, "10.0.0.1:5432"), "", (POSTGRESQL, "10.0.0.1:5432")),
        (entry(3, "[fd00::1]:6379"), "", (REDIS, "[fd00::1]:6379")),
        (entry(3, "127.0.0.1:999", "postgres"), "", (POSTGRESQL, "127.0.0.1:999")),
        (entry(3, "127.0.0.1:999", "redis-server"), "", (REDIS, "127.0.0.1:999")),
        (entry(3, "127.0.0.1:999", "pgbouncer"), "", (POSTGRESQL, "127.0.0.1:999")),
        (entry(3, "/tmp/.s.PGSQL.7", kind="unix-stream"), "", (POSTGRESQL, "/tmp/.s.PGSQL.7")),
        (entry(3, "/run/redis.sock", kind="unix-stream"), "", (REDIS, "/run/redis.sock")),
        (entry(3, "/run/bus", kind="unix-stream"), "", None),
        (entry(3, "10.0.0.1:999"), "", None),
        (entry(3, "10.0.0.1:999"), "redis://cache:999", (REDIS, "10.0.0.1:999")),
        (entry(3, "10.0.0.1:999"), "redis://10.0.0.2:999", None),
        (entry(3, "10.0.0.1:443"), "", None),
    ],
)
def test_servers_among_the_peers(one: dict, known: str, expected: tuple[str, str] | None) -> None:
    found = servers(NOBODY, [one], found_in(known))
    assert [(server.kind, server.name) for server in found] == ([expected] if expected else [])


def test_what_is_not_connected_is_no_server() -> None:
    assert servers(NOBODY, [entry(3, "10.0.0.1:5432") | {"state": "TIME_WAIT"}], []) == []


def waiters(connection: psycopg.Connection[Any]) -> list[int]:
    """Return the sessions that wait for a lock, as a session sees it that is in a transaction."""
    connection.execute("select pg_stat_clear_snapshot()")
    asked = "select pid from pg_stat_activity where wait_event_type = 'Lock'"
    return [pid for (pid,) in connection.execute(asked).fetchall()]
