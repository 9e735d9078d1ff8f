"""Statements of a killed attempt do not run on in PostgreSQL: its sessions end first."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from harness import NodeUnderTest, Start, eventually
from servers import PostgreSQL, proxy, start_postgresql

from autopsy.capture import Order, capture
from supervisor.client import Handle
from supervisor.worker import tree
from supervisor.worker.session import name_of

APP = "tests.programs.tasks_databases:app"


class Counter:
    """A row that somebody else holds, and what becomes of it."""

    def __init__(self, server: PostgreSQL) -> None:
        self.name = uuid.uuid4().hex
        self.server = server
        self._watcher = psycopg.connect(server.dsn, autocommit=True)
        self._watcher.execute("create table if not exists counters (name text primary key, n int)")
        self._watcher.execute("insert into counters values (%s, 0)", [self.name])
        self.holder = psycopg.connect(server.dsn, application_name="holder")
        self.holder.execute("update counters set n = n where name = %s", [self.name])

    def let_go(self) -> None:
        self.holder.commit()

    def value(self) -> int:
        row = self._watcher.execute("select n from counters where name = %s", [self.name])
        ((value,),) = row.fetchall()
        return int(value)

    def sessions(self) -> list[tuple[int, str, str]]:
        """Return (process, application, state) of all sessions that touch counters."""
        asked = "select pid, application_name, state from pg_stat_activity"
        where = " where query like '%%update counters%%' and pid <> pg_backend_pid()"
        also = " and pid <> %s order by pid"
        return self._watcher.execute(
            asked + where + also, [self.holder.info.backend_pid]
        ).fetchall()

    def is_wanted(self) -> bool:
        asked = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
        return self._watcher.execute(asked).fetchone() == (1,)

    def close(self) -> None:
        self.holder.close()
        self._watcher.close()


@pytest.fixture
def counter(postgresql: PostgreSQL) -> Iterator[Counter]:
    one = Counter(postgresql)
    yield one
    one.let_go()
    eventually(lambda: not one.sessions(), 5, "no session of the test is left")
    one.close()


@pytest.fixture
def start_databases(start_node: Start, postgresql: PostgreSQL) -> Any:
    def start(**settings: Any) -> NodeUnderTest:
        options: dict[str, Any] = {"workers": 1, "autopsy_budget": 8, **settings}
        return start_node(APP, **options)

    return start


def waiting(node: NodeUnderTest, counter: Counter, kind: str = "adds", **params: Any) -> Handle:
    """Submit a task and return when its statement waits for the row."""
    spec = {"max_retries": 0}
    told = {"dsn": counter.server.dsn, "counter": counter.name, **params}
    handle = node.submit(kind, spec=spec, **told)
    eventually(counter.is_wanted, 15, "the statement waits for the row")
    return handle


def kill(node: NodeUnderTest, handle: Handle) -> None:
    """Have the attempt killed by force, and return when the task is over."""
    assert handle.cancel(by="test", reason="it waits for ever").done
    assert str(handle.wait(40).state) == "CANCELED"


def told(node: NodeUnderTest, handle: Handle) -> list[dict[str, Any]]:
    """Return what the bundle says of the sessions that were ended."""
    bundle = node.bundle(handle.task_id)
    [entry] = [one for one in bundle.entries if one.name == "terminated"]
    assert (entry.status, entry.reason) == ("ok", "")
    found: list[dict[str, Any]] = bundle.sections["terminated"]["postgresql"]
    return found


def test_without_the_step_a_statement_is_carried_out_after_the_kill(
    start_databases: Any, counter: Counter
) -> None:
    node = start_databases(end_statements="false")
    handle = waiting(node, counter)
    kill(node, handle)
    assert len(counter.sessions()) == 1
    assert counter.value() == 0
    counter.let_go()
    eventually(lambda: counter.value() == 1, 5, "the dead attempt's statement is carried out")
    assert "terminated" not in node.bundle(handle.task_id).sections


def test_a_waiting_statement_is_not_carried_out(start_databases: Any, counter: Counter) -> None:
    node = start_databases()
    handle = waiting(node, counter)
    [(backend, application, _)] = counter.sessions()
    assert application == name_of(handle.task_id, 1)
    kill(node, handle)
    assert counter.sessions() == []
    counter.let_go()
    assert counter.value() == 0
    server = f"127.0.0.1:{counter.server.port}"
    assert told(node, handle) == [
        {
            "server": server,
            "pid": backend,
            "application": application,
            "state": "active",
            "query": "update counters set n = n + ? where name = $1",
            "matched_by": ["socket", "application name"],
            "ended": True,
            "reason": "",
        }
    ]
    query = "update counters set n = n + ? where name = $1"
    noted = f"PostgreSQL {server}, process {backend} (active: {query}): ended"
    lines = {line.reason: line.note for line in handle.history()}
    assert lines["sessions_ended"] == noted
    [event] = node.events("sessions.ended")
    assert (event["ended"], event["left"], event["sessions"]) == (1, 0, [noted])


def test_over_a_unix_domain_socket_the_session_is_found_by_its_process(
    start_databases: Any, counter: Counter
) -> None:
    node = start_databases()
    handle = waiting(node, counter, dsn=counter.server.local_dsn + " application_name=mine")
    kill(node, handle)
    assert counter.sessions() == []
    [session] = told(node, handle)
    assert (session["matched_by"], session["application"]) == (["socket"], "mine")
    assert session["server"] == f"{counter.server.directory}/.s.PGSQL.{counter.server.port}"
    counter.let_go()
    assert counter.value() == 0


def test_a_body_that_tries_again_gets_no_further_try(
    start_databases: Any, counter: Counter
) -> None:
    node = start_databases()
    handle = waiting(node, counter, "adds_again")
    kill(node, handle)
    assert counter.sessions() == []
    counter.let_go()
    assert counter.value() == 0


def test_a_program_that_the_body_runs_is_the_attempts_too(
    start_databases: Any, counter: Counter
) -> None:
    node = start_databases()
    handle = waiting(node, counter, "adds_through_a_child")
    kill(node, handle)
    assert counter.sessions() == []
    [session] = told(node, handle)
    assert session["matched_by"] == ["socket", "application name"]
    counter.let_go()
    assert counter.value() == 0


def test_what_is_idle_in_a_transaction_ends_and_frees_its_rows(
    start_databases: Any, counter: Counter
) -> None:
    node = start_databases()
    counter.let_go()
    spec = {"max_retries": 0}
    handle = node.submit("holds", spec=spec, dsn=counter.server.dsn, counter=counter.name)
    eventually(counter.sessions, 15, "the row is held")
    kill(node, handle)
    [session] = told(node, handle)
    assert (session["state"], session["ended"]) == ("idle in transaction", True)
    assert counter.sessions() == []
    assert counter.value() == 0


def test_a_connection_of_an_earlier_attempt_dies_with_its_worker(
    start_databases: Any, counter: Counter
) -> None:
    node = start_databases()
    assert node.run("keeps", dsn=counter.server.dsn).state == "SUCCESS"
    handle = waiting(node, counter, "adds_on_the_kept_one")
    kill(node, handle)
    [session] = told(node, handle)
    assert (session["application"], session["matched_by"]) == ("pool", ["socket"])
    assert counter.sessions() == []


def test_sessions_of_others_are_left_alone(start_databases: Any, counter: Counter) -> None:
    """Another attempt of the same node, on the same server, waiting for the same row."""
    node = start_databases(workers=2)
    handle = waiting(node, counter)
    other = node.submit(
        "adds", spec={"max_retries": 0}, dsn=counter.server.dsn, counter=counter.name
    )
    eventually(lambda: len(counter.sessions()) == 2, 15, "both wait")
    kill(node, handle)
    [(_, application, state)] = counter.sessions()
    assert (application, state) == (name_of(other.task_id, 1), "active")
    counter.let_go()
    assert other.wait(20).state == "SUCCESS"
    assert counter.value() == 1


def test_an_examination_that_lets_live_ends_nothing(start_databases: Any, counter: Counter) -> None:
    node = start_databases()
    handle = waiting(node, counter)
    node.cli_json("autopsy", "capture", handle.task_id)
    assert len(counter.sessions()) == 1
    counter.let_go()
    assert handle.wait(20).state == "SUCCESS"
    assert counter.value() == 1
    assert "terminated" not in node.bundle(handle.task_id).sections


def test_connections_are_called_after_their_attempt(start_databases: Any, counter: Counter) -> None:
    node = start_databases()
    handle = node.submit("named", dsn=counter.server.dsn)
    name = name_of(handle.task_id, 1)
    assert json.loads(handle.wait(20).result_json or "") == [name, name, name, ""]


def test_a_name_that_the_user_gave_stays(start_node: Start, counter: Counter) -> None:
    node = start_node(APP, run=False, workers=1)
    node.env["PGAPPNAME"] = "accounting"
    node.start()
    seen = json.loads(node.run("named", dsn=counter.server.dsn).result_json or "")
    assert seen == ["accounting"] * 4


def test_behind_a_pooler_a_session_is_told_and_left_alone(
    start_databases: Any, counter: Counter
) -> None:
    """The pooler lives on and may have lent the connection, with its name, to another client."""
    with proxy(counter.server.port) as port:
        account = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        node = start_databases(autopsy_databases=account)
        dsn = f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
        handle = waiting(node, counter, dsn=dsn)
        kill(node, handle)
        [session] = told(node, handle)
        assert (session["server"], session["ended"]) == (f"127.0.0.1:{port}", False)
        assert session["matched_by"] == ["application name"]
        assert "a pooler may have lent it on" in session["reason"]
        told_of = node.cli_json("config")["settings"]["autopsy_databases"]["value"]
        assert told_of == "1 given, not shown"
        assert account not in node.cli("config").stdout


def test_a_worker_that_dies_by_itself_leaves_what_its_name_tells(
    start_databases: Any, counter: Counter, postgresql: PostgreSQL
) -> None:
    node = start_databases(autopsy_databases=postgresql.url)
    handle = waiting(node, counter, "adds_and_dies")
    assert str(handle.wait(20).state) == "FAILED"
    eventually(lambda: not counter.sessions(), 15, "the statement of the dead is ended")
    eventually(lambda: node.reader.autopsies(handle.task_id), 10, "a bundle")
    [session] = told(node, handle)
    assert (session["ended"], session["matched_by"]) == (True, ["application name"])
    counter.let_go()
    assert counter.value() == 0


def test_a_server_that_hangs_holds_up_no_kill(start_databases: Any) -> None:
    own = start_postgresql()
    counter = Counter(own)
    try:
        node = start_databases()
        handle = waiting(node, counter)
        os.kill(own.pid, signal.SIGSTOP)  # nobody new is let in
        kill(node, handle)
        [session] = told(node, handle)
        assert (session["pid"], session["ended"]) == (None, False)
        assert session["reason"].startswith("no answer within 1.")
        [event] = node.events("sessions.ended")
        assert (event["ended"], event["left"]) == (0, 1)
        [taken] = node.reader.autopsies(handle.task_id)
        assert taken.ms < 8000
    finally:
        os.kill(own.pid, signal.SIGCONT)
        counter.close()
        own.stop()


def test_a_connection_that_a_survivor_has_open_too_is_left(
    postgresql: PostgreSQL, counter: Counter, tmp_path: Path
) -> None:
    source = (
        "import os, psycopg, sys, time\n"
        "line = psycopg.connect(sys.argv[1], autocommit=True)\n"
        "if child := os.fork():\n"
        "    print(child, flush=True)\n"
        "    sys.stdin.read()\n"
        "    os._exit(0)\n"
        "line.execute(sys.argv[2], [sys.argv[3]])\n"
    )
    statement = "update counters set n = n + 1 where name = %s"
    command = [sys.executable, "-c", source, postgresql.dsn, statement, counter.name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        child = int(one.stdout.readline())
        eventually(counter.is_wanted, 15, "the statement waits for the row")
        captured = capture(Order(child, budget_s=5, end_statements=True))
        assert tree.is_alive(child)
        os.kill(child, signal.SIGKILL)
        [section] = [one for one in captured.sections if one.name == "terminated"]
        [session] = section.payload["postgresql"]
        assert (session["ended"], session["matched_by"]) == (False, ["socket"])
        alive = f"its connection is open in process {one.pid} as well, which lives on"
        assert session["reason"] == alive
        assert len(counter.sessions()) == 1
