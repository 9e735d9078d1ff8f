"""The command line against a real store: what each command answers, to people and to programs."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from autopsy.capture import Order
from autopsy.capture import capture as take
from supervisor.app import App
from supervisor.cli.call import os_user
from supervisor.cli.group import COMMANDS, build
from supervisor.cli.submit import UNCHECKED
from supervisor.client import Client
from supervisor.clock import SystemClock
from supervisor.model import outcome
from supervisor.model.record import Ending, NodeRecord, Owner, Started
from supervisor.model.retry import RetryPolicy
from supervisor.model.states import Reason, State
from supervisor.node.process import own_identity
from supervisor.settings import Settings
from supervisor.store import AutopsyRecord, Ledger, open_store
from supervisor.words.text import clock

BAD_ID = "task_" + "0" * 32


class Desk:
    """A store, the command line on it, and a hand that plays the node."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/supervisor.db"
        self._clock = SystemClock()

    def run(self, *args: str, stdin: str | None = None, **env: str) -> Result:
        given = {"SUPERVISOR_STORE": self.url, **env}
        return CliRunner(env=given).invoke(build(), list(args), input=stdin)

    def ok(self, *args: str, stdin: str | None = None) -> Any:
        """Run with --json, require success, return the answer."""
        result = self.run(*args, "--json", stdin=stdin)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def submit(self, *args: str) -> str:
        return str(self.ok("submit", *args)["tasks"][0]["task_id"])

    def client(self) -> Client:
        return Client(Settings(store=self.url))

    def node_runs(self, node_id: str) -> None:
        """Write down that this process is a node."""
        store = open_store(self.url, create=False)
        try:
            with Ledger(store, self._clock).transaction() as tx:
                record = NodeRecord(
                    node_id=node_id, node_name="host", process=own_identity(), version="0.1.0",
                    started_at=self._clock.now(),
                )  # fmt: skip
                tx.register_node(record)
        finally:
            store.close()

    def announce(self, types: dict[str, str | None]) -> None:
        """Say which types there are, as a node does."""
        store = open_store(self.url, create=False)
        try:
            with Ledger(store, self._clock).transaction() as tx:
                tx.record_types(types, "n1", self._clock.now())
        finally:
            store.close()

    def claim(self, type_name: str, owner: Owner | None = None) -> int:
        """Claim and start the next task of a type; return its attempt."""
        store = open_store(self.url, create=False)
        try:
            with Ledger(store, self._clock).transaction() as tx:
                now = self._clock.now()
                [claim] = tx.claim(
                    [owner or Owner("w1", 1, 1)],
                    node_id="n1", queues=None, types={type_name}, now=now,
                )  # fmt: skip
                tx.started(
                    [
                        Started(
                            task_id=claim.task_id, attempt=claim.attempt, started_at=now,
                            timeout=60, soft_timeout=54,
                        )
                    ]
                )  # fmt: skip
            return claim.attempt
        finally:
            store.close()

    def end(
        self,
        task_id: str,
        attempt: int,
        how: outcome.Outcome,
        log: str | None = None,
        policy: RetryPolicy | None = None,
    ) -> None:
        store = open_store(self.url, create=False)
        try:
            with Ledger(store, self._clock).transaction() as tx:
                tx.finish(
                    [
                        Ending(
                            task_id=task_id, attempt=attempt, outcome=how,
                            policy=policy or RetryPolicy(max_retries=0), ended_at=self._clock.now(),
                            log_tail=log, usage={"max_rss_bytes": 2.0**20},
                        )
                    ]
                )  # fmt: skip
        finally:
            store.close()

    def failed(self, *args: str, log: str | None = None) -> str:
        task_id = self.submit("export", *args)
        failure = outcome.raised("ValueError", "no \x1b[2J luck", "Traceback: …")
        self.end(task_id, self.claim("export"), failure, log)
        return task_id


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path)


def commands(group: click.Group | None = None, path: str = "") -> Iterator[tuple[str, Any]]:
    group = group or build()
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield f"{path}{name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")


class TestEveryCommand:
    def test_all_commands_of_this_version_are_there(self) -> None:
        assert [path for path, _ in commands()] == [
            "demo", "run", "submit", "list", "show", "logs", "history", "cancel", "rerun", "fail",
            "pause", "resume", "queues", "nodes", "node capture", "node drain", "node stop",
            "node undrain", "top",
            "autopsy capture", "autopsy export", "autopsy list", "autopsy show",
            "web", "users add", "users disable", "users list", "users passwd", "users remove",
            "tokens create", "tokens list", "tokens revoke", "archive", "archive search", "check",
            "config", "rules export", "dashboards export", "db upgrade",
        ]  # fmt: skip

    def test_shared_flags_and_an_example(self, desk: Desk) -> None:
        for path, command in commands():
            flags = {flag for parameter in command.params for flag in parameter.opts}
            needs_no_store = path in {"demo", "rules export", "dashboards export"}
            shared = {"--json"} if needs_no_store else {"--json", "--store", "--config"}
            assert shared <= flags, path
            result = desk.run(*path.split(), "--help")
            assert result.exit_code == 0
            example = result.stdout.split("Example:\n", 1)[1].split("\n")[0]
            assert f"supervisor {path}" in example, path

    def test_the_line_in_the_root_help_is_told_by_the_command_too(self) -> None:
        root = build()
        context = click.Context(root)
        for name, (_, _, line) in COMMANDS.items():
            assert line.endswith("."), name
            command = root.get_command(context, name)
            assert command is not None
            assert command.short_help == line

    def test_no_arguments_print_the_help_and_are_wrong_usage(self, desk: Desk) -> None:
        for args in ([], ["db"], ["autopsy"]):
            result = desk.run(*args)
            assert (result.exit_code, result.stdout) == (2, "")
            assert "Commands:" in result.stderr

    def test_version(self, desk: Desk) -> None:
        assert desk.run("--version").stdout == "supervisor, version 0.1.0\n"


class TestSubmit:
    def test_one_task_by_flags(self, desk: Desk) -> None:
        task_id = desk.submit(
            "export", "--param", "user_id=1001", "--param", "kind=sales", "--param", "deep=[1]",
            "--priority", "7", "--queue", "exports", "--tag", "a", "--tag", "b", "--by", "alice",
            "--dedup-key", "k", "--timeout", "5", "--max-retries", "1",
        )  # fmt: skip
        shown = desk.ok("show", task_id)
        expected = {
            "params": {"user_id": 1001, "kind": "sales", "deep": [1]},
            "priority": 7,
            "queue": "exports",
            "tags": ["a", "b"],
            "submitted_by": "alice",
            "dedup_key": "k",
            "timeout": 5.0,
            "max_retries": 1,
            "state": "PENDING",
        }
        assert {name: shown[name] for name in expected} == expected

    def test_a_held_key_returns_its_task(self, desk: Desk) -> None:
        first = desk.ok("submit", "export", "--dedup-key", "k")
        again = desk.ok("submit", "export", "--dedup-key", "k")
        assert again == {
            "tasks": [{"task_id": first["tasks"][0]["task_id"], "created": False}],
            "created": 0,
            "existing": 1,
            "notes": ["no node has announced this type yet: export", UNCHECKED],
        }

    def test_long_params_are_told(self, desk: Desk) -> None:
        text = json.dumps([{"type": "export", "params": {"a": "x" * 70_000}}] * 2)
        (_new, _type, long, _unchecked) = desk.ok("submit", "-", stdin=text)["notes"]
        assert long.startswith("params of a export task are 70008 characters of JSON; above 65536")

    def test_a_type_goes_to_the_queue_that_its_node_announced(self, desk: Desk) -> None:
        unheard = desk.run("submit", "export", "--by", "alice")
        assert unheard.stderr.splitlines() == [
            f"note: made a new store at {desk.folder}/supervisor.db",
            "note: no node has announced this type yet: export",
            f"note: {UNCHECKED}",
        ]
        desk.announce({"export": "exports", "tidy": None})
        assert desk.run("submit", "export").stderr == f"note: {UNCHECKED}\n"
        text = '[{"type":"export"},{"type":"tidy"},{"type":"export","queue":"own"},{"type":"odd"}]'
        answer = desk.ok("submit", "-", stdin=text)
        assert answer["notes"] == ["no node has announced this type yet: odd", UNCHECKED]
        queues = [desk.ok("show", task["task_id"])["queue"] for task in answer["tasks"]]
        assert queues == ["exports", "default", "own", "default"]

    def test_the_user_stands_in_the_audit_if_nobody_else_is_named(self, desk: Desk) -> None:
        task_id = desk.submit("export")
        assert desk.ok("history", task_id)["history"][0]["operator"] == os_user()

    @pytest.mark.parametrize(
        "text",
        [
            '{"type":"a"}\n\n{"type":"b","params":{"x":1}}\n',
            '[{"type":"a"},\n {"type":"b","params":{"x":1}}]',
        ],
    )
    def test_files_hold_lines_or_a_list(self, desk: Desk, text: str) -> None:
        (desk.folder / "specs.jsonl").write_text(text, "utf-8")
        assert desk.ok("submit", "specs.jsonl")["created"] == 2
        assert desk.ok("submit", "-", stdin=text)["created"] == 2
        assert [task["type"] for task in desk.ok("list")["tasks"]] == ["b", "a"] * 2

    def test_one_object_over_several_lines(self, desk: Desk) -> None:
        assert desk.ok("submit", "-", stdin='{"type":\n"a"}')["created"] == 1

    def test_many_are_written_in_batches(self, desk: Desk) -> None:
        text = "\n".join(f'{{"type":"a","params":{{"n":{n}}}}}' for n in range(2500))
        result = desk.run("submit", "-", stdin=text)
        assert result.exit_code == 0
        lines = result.stdout.splitlines()
        assert lines[20:] == ["… and 2480 more", "2500 created, 0 existed already"]

    def test_a_bad_line_writes_nothing_and_is_named(self, desk: Desk) -> None:
        text = '{"type":"a"}\n{"type":"9b","zz":1}\n{"type":"c","params":{"x":NaN}}'
        result = desk.run("submit", "-", "--json", stdin=text)
        assert result.exit_code == 1
        assert json.loads(result.stderr)["facts"]["problems"] == [
            "line 2: zz: is not a field of a task",
            (
                "line 2: type: must be a name of letters, digits and _ . : - (at most 200, not "
                "starting with a digit) (given: '9b')"
            ),
            "line 3: params.x: is not a JSON number (given: nan)",
        ]
        assert not (desk.folder / "supervisor.db").exists()

    def test_a_thousand_bad_lines_are_told_briefly(self, desk: Desk) -> None:
        result = desk.run("submit", "-", "--json", stdin='{"type":"9"}\n' * 1000)
        problems = json.loads(result.stderr)["facts"]["problems"]
        assert len(problems) == 21
        assert problems[-1] == "…: and 980 more problems"

    def test_a_line_without_a_type_says_that_it_is_missing(self, desk: Desk) -> None:
        result = desk.run("submit", "-", stdin='{"params":{}}\n{"type":"a","priority":99}\n')
        assert (result.exit_code, result.stderr.splitlines()[:-1]) == (
            1,
            [
                "error: line 1: type: is missing",
                "       line 2: priority: must be a whole number from 0 to 9 (given: 99)",
            ],
        )

    def test_a_file_takes_no_options_of_a_task(self, desk: Desk) -> None:
        (desk.folder / "jobs.jsonl").write_text('{"type":"a"}\n', "utf-8")
        result = desk.run("submit", "jobs.jsonl", "--param", "a=1", "--tag", "x")
        assert (result.exit_code, result.stderr.splitlines()) == (
            2,
            [
                "error: --param, --tag cannot be given with a file, and jobs.jsonl is one",
                (
                    "remedy: Write it into the specs of the file; to submit one task of a type "
                    "that is called like a file here, run the command in another directory."
                ),
            ],
        )
        assert not (desk.folder / "supervisor.db").exists()

    def test_params_are_checked_against_an_app(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (desk.folder / "shop_cli.py").write_text(
            "from supervisor import App\napp = App()\n"
            "@app.task(queue='exports')\ndef export(ctx, user_id: int): ...\n",
            "utf-8",
        )
        monkeypatch.syspath_prepend(desk.folder)
        answer = desk.ok("submit", "export", "--app", "shop_cli:app", "--param", "user_id=1")
        assert UNCHECKED not in answer["notes"]
        task_id = answer["tasks"][0]["task_id"]
        assert desk.ok("show", task_id)["queue"] == "exports"
        wrong = desk.run("submit", "export", "--app", "shop_cli:app", "--param", "user_id=x")
        assert (wrong.exit_code, "params.user_id: must be int" in wrong.stderr) == (1, True)
        other = desk.run("submit", "exprt", "--app", "shop_cli:app")
        assert (other.exit_code, "Did you mean export?" in other.stderr) == (1, True)


class TestLooking:
    def test_list_filters_and_continues(self, desk: Desk) -> None:
        ids = [desk.submit(kind, "--queue", kind, "--tag", kind) for kind in "aab"]
        assert [t["task_id"] for t in desk.ok("list")["tasks"]] == ids[::-1]
        assert [t["task_id"] for t in desk.ok("list", "--type", "b")["tasks"]] == ids[2:]
        assert [t["task_id"] for t in desk.ok("list", "--queue", "b")["tasks"]] == ids[2:]
        assert [t["task_id"] for t in desk.ok("list", "--tag", "b")["tasks"]] == ids[2:]
        assert [t["task_id"] for t in desk.ok("list", "--find", ids[0])["tasks"]] == ids[:1]
        assert desk.ok("list", "--state", "failed") == {"tasks": [], "next": None, "archived": []}
        page = desk.ok("list", "--limit", "2")
        assert page["next"] == ids[1]
        rest = desk.ok("list", "--limit", "2", "--before", page["next"])
        assert [t["task_id"] for t in rest["tasks"]] == ids[:1]
        assert f"more: --before {ids[1]}" in desk.run("list", "--limit", "2").stdout
        assert desk.run("list", "--state", "FAILED").stdout == "no tasks\n"

    def test_list_tells_the_whole_error_with_its_type_into_a_pipe(self, desk: Desk) -> None:
        task_id = desk.submit("export")
        failure = outcome.raised("ValueError", "no luck " * 30, "Traceback: …")
        desk.end(task_id, desk.claim("export"), failure)
        [row] = [x for x in desk.run("list").stdout.splitlines() if x.startswith("task_")]
        assert row.endswith("ValueError: " + ("no luck " * 30).rstrip())

    def test_show_tells_state_attempts_and_error(self, desk: Desk) -> None:
        task_id = desk.failed("--param", "user_id=1")
        document = desk.ok("show", task_id)
        assert (document["state"], document["result"]) == ("FAILED", None)
        [attempt] = document["attempts"]
        assert (attempt["outcome"], attempt["error_type"]) == ("FAILED", "ValueError")
        text = desk.run("show", task_id[:20]).stdout
        assert text.startswith(f"{task_id}  FAILED  raised\n")
        assert "  error      ValueError: no \\x1b[2J luck" in text
        assert "  usage      max_rss 1.0 MiB" in text
        assert "\x1b" not in text

    def test_what_ended_for_good_says_how_it_runs_again(self, desk: Desk) -> None:
        task_id = desk.submit("export", "--timeout", "60", "--max-retries", "0")
        timed_out = outcome.killed(State.TIMEOUT, Reason.TIMEOUT, "ran past its time limit")
        desk.end(task_id, desk.claim("export"), timed_out)
        again = f"it runs again only by `supervisor rerun {task_id[-8:]} --reason …`"
        lines = desk.run("show", task_id).stdout.splitlines()
        assert "  limits     timeout 60 s, soft 54 s, retries 0" in lines
        assert f"  final: 0 of 0 retries used; {again}" in lines
        assert "  error      ran past its time limit of 60 s" in lines
        assert "TIMEOUT (final)" in desk.run("list").stdout
        desk.ok("rerun", task_id[-8:], "--reason", "again")
        died = outcome.crashed("was killed by SIGSEGV")
        policy = RetryPolicy(max_retries=0, max_crashes=1)
        desk.end(task_id, desk.claim("export"), died, policy=policy)
        lines = desk.run("show", task_id).stdout.splitlines()
        assert f"  quarantined: it has killed its worker 1 times; {again}" in lines
        assert "FAILED (quarantined)" in desk.run("list").stdout

    def test_the_words_of_a_task_stay_its_own(self, desk: Desk) -> None:
        task_id = desk.submit("export", "--timeout", "60", "--max-retries", "0")
        error = outcome.raised("ValueError", "the bank exceeded its time limit", "Traceback: …")
        desk.end(task_id, desk.claim("export"), error)
        lines = desk.run("show", task_id).stdout.splitlines()
        assert "  error      ValueError: the bank exceeded its time limit" in lines

    def test_list_says_what_comes_next(self, desk: Desk) -> None:
        gone, later = desk.submit("export"), desk.submit("tidy")
        desk.ok("cancel", gone, "--reason", "wrong month", "--by", "ada")
        failure = outcome.raised("ValueError", "no luck", "Traceback: …")
        desk.end(later, desk.claim("tidy"), failure, policy=RetryPolicy(max_retries=1))
        rows = {line[:37]: line for line in desk.run("list").stdout.splitlines()}
        assert rows[gone].endswith("  canceled by ada: wrong month")
        assert re.search(r"PENDING +tidy .*  ValueError: no luck; again in \d+\.\d s$", rows[later])
        assert "  end        canceled by ada: wrong month\n" in desk.run("show", gone).stdout

    def test_proof_and_note_do_not_say_the_same(self, desk: Desk) -> None:
        task_id = desk.submit("export")
        how = outcome.node_lost("its worker and its node are gone", "node n1, worker pid 7")
        proof = how.proof
        desk.end(task_id, desk.claim("export"), outcome.node_lost(proof, f"{how.detail}: {proof}"))
        lines = desk.run("show", task_id).stdout.splitlines()
        assert f"  proof      {proof}" in lines
        assert "  note       node n1, worker pid 7" in lines

    def test_show_tells_the_result(self, desk: Desk) -> None:
        task_id = desk.submit("export")
        desk.end(task_id, desk.claim("export"), outcome.returned('{"rows":3}'))
        assert desk.ok("show", task_id)["result"] == {"rows": 3}
        assert desk.ok("show", task_id)["attempts"][0]["result"] == {"rows": 3}
        assert '  result     {"rows":3}' in desk.run("show", task_id).stdout

    def test_show_tells_the_way_of_a_stop_request(self, desk: Desk) -> None:
        task_id = desk.submit("export")
        desk.claim("export")
        desk.ok("cancel", task_id, "--reason", "wrong month", "--by", "alice")
        [step] = desk.ok("show", task_id)["cancel"]
        assert (step["step"], step["attempt"], step["by"], step["note"]) == (
            "cancel_requested", 1, "alice", "wrong month",
        )  # fmt: skip
        assert "stop request\n" in desk.run("show", task_id).stdout

    def test_a_stop_request_stands_with_the_attempt_it_was_for(self, desk: Desk) -> None:
        task_id = desk.submit("export")
        first = desk.claim("export")
        desk.ok("fail", task_id, "--reason", "stuck", "--by", "bob")
        desk.end(task_id, first, outcome.canceled())
        desk.ok("rerun", task_id, "--reason", "again")
        desk.end(task_id, desk.claim("export"), outcome.returned("1"))
        lines = desk.run("show", task_id).stdout.splitlines()
        heads = [line for line in lines if line.startswith(("attempt", "  stop", "    20"))]
        asked = desk.ok("show", task_id)["cancel"][0]["at"]
        at = clock(datetime.fromisoformat(asked))
        assert heads == [
            "attempt 1  FAILED  forced",
            "  stop request",
            f"    {at}  fail_requested  bob  stuck",
            heads[3],
            "attempt 2  SUCCESS  returned",
        ]
        assert heads[3].endswith("Z  ended  supervisor  forced (reported)")  # bob only asked

    def test_what_was_lost_with_its_node_ran_at_most_so_long(self, desk: Desk) -> None:
        task_id = desk.submit("export")
        desk.end(task_id, desk.claim("export"), outcome.node_lost("gone", "n1"))
        lines = desk.run("show", task_id).stdout.splitlines()
        place = lines.index("attempt 1  TIMEOUT  node_lost")
        assert re.search(r"Z, ran at most [^;]* m?s; worker w1", lines[place + 1])

    def test_a_due_task_says_what_it_waits_for(self, desk: Desk) -> None:
        task_id = desk.submit("export", "--queue", "q", "--priority", "3")
        no_node = "no node runs: start one with `supervisor run`"
        assert desk.ok("show", task_id)["waits"] == [no_node]
        desk.node_runs("n1")
        unknown = "no running node has announced the type export"
        assert desk.ok("show", task_id)["waits"] == [unknown]
        desk.announce({"export": None})
        assert desk.ok("show", task_id)["waits"] == []
        desk.ok("pause", "q", "--priority", "4", "--reason", "x")
        assert desk.ok("show", task_id)["waits"] == []
        desk.ok("pause", "q", "--priority", "3", "--reason", "slow", "--by", "ann")
        desk.ok("pause", "q", "--reason", "the bank is down", "--by", "bob")
        waits = [
            re.sub(r"since \S+ \S+Z", "since T", why) for why in desk.ok("show", task_id)["waits"]
        ]
        assert waits == [
            "queue q is paused by bob since T: the bank is down",
            "queue q, priority 3 is paused by ann since T: slow",
        ]
        assert "  waits      queue q is paused by bob since " in desk.run("show", task_id).stdout
        later = desk.submit("other", "--run-after", "2100-01-01T00:00:00Z")
        assert desk.ok("show", later)["waits"] == []

    def test_history_is_the_audit_trail(self, desk: Desk) -> None:
        task_id = desk.failed("--by", "alice")
        moves = [
            (line["from_state"], line["to_state"], line["operator"], line["reason"])
            for line in desk.ok("history", task_id)["history"]
        ]
        assert moves == [
            (None, "PENDING", "alice", "submitted"),
            ("PENDING", "RUNNING", "supervisor", "claimed"),
            ("RUNNING", "FAILED", "supervisor", "raised"),
        ]
        assert "RUNNING → FAILED" in desk.run("history", task_id).stdout

    def test_logs_are_those_that_were_kept(self, desk: Desk) -> None:
        task_id = desk.failed(log="one\ntwo\n")
        assert desk.run("logs", task_id).stdout == "one\ntwo\n"
        document = desk.ok("logs", task_id, "--attempt", "1")
        assert document == {"task_id": task_id, "attempt": 1, "live": False, "text": "one\ntwo\n"}
        followed = desk.run("logs", task_id, "--follow")
        assert followed.stdout == "one\ntwo\n"
        assert "nothing to follow" in followed.stderr

    @pytest.mark.parametrize(
        ("how", "why"),
        [
            (outcome.returned("1"), "nothing is kept of attempt 1: it succeeded"),
            (outcome.raised("E", "no", ""), "attempt 1 printed nothing"),
            (outcome.node_lost("gone", "n1"), "the output of attempt 1 was lost with its node"),
        ],
    )
    def test_why_no_output_is_kept_is_said(
        self, desk: Desk, how: outcome.Outcome, why: str
    ) -> None:
        task_id = desk.submit("export")
        waiting = desk.run("logs", task_id)
        assert (waiting.exit_code, waiting.stdout, waiting.stderr) == (
            0, "", f"note: {task_id} has not run yet\n",
        )  # fmt: skip
        desk.end(task_id, desk.claim("export"), how)
        for args in ([], ["--attempt", "1"]):
            result = desk.run("logs", task_id, *args)
            assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"note: {why}\n")

    def test_an_attempt_that_was_never_made_is_refused(self, desk: Desk) -> None:
        task_id = desk.failed(log="one\n")
        result = desk.run("logs", task_id, "--attempt", "5")
        assert (result.exit_code, result.stdout, result.stderr.splitlines()) == (
            1,
            "",
            [
                f"error: {task_id} has no attempt 5: its latest is number 1",
                f"remedy: `supervisor show {task_id}` lists its attempts.",
            ],
        )

    def test_queues_and_pauses(self, desk: Desk) -> None:
        desk.submit("a", "--queue", "q")
        paused = desk.run("pause", "q", "--reason", "the bank is down", "--by", "bob")
        assert (paused.exit_code, paused.stdout) == (0, "q: paused\n")
        unused = desk.run("pause", "new", "--reason", "x")
        assert unused.stdout == "new: paused; no task has used this queue yet\n"
        assert desk.ok("resume", "new")["note"] == ""
        again = desk.run("pause", "q", "--reason", "x")
        assert (again.exit_code, "is paused already" in again.stdout) == (1, True)
        _, queue = desk.ok("queues")["queues"]
        assert (queue["queue"], queue["paused"], queue["in_queue"], queue["by"]) == (
            "q", True, 1, "bob",
        )  # fmt: skip
        assert desk.ok("resume", "q")["changed"] is True
        assert desk.run("resume", "q").exit_code == 1
        assert desk.ok("pause", "q", "--priority", "3", "--reason", "x")["priority"] == 3
        assert "priority 3" in desk.run("queues").stdout

    def test_top_prints_once_into_a_pipe(self, desk: Desk) -> None:
        desk.submit("export")
        desk.claim("export", Owner("w7", 4, 4))
        document = desk.ok("top")
        assert document["by_state"]["RUNNING"] == 1
        assert [task["worker_id"] for task in document["running"]] == ["w7"]
        assert "no node runs" in desk.run("top").stdout

    def test_top_names_what_is_paused(self, desk: Desk) -> None:
        desk.submit("export")
        assert desk.ok("top")["pauses"] == []
        desk.ok("pause", "q", "--priority", "3", "--by", "bob", "--reason", "the bank is down")
        [pause] = desk.ok("top")["pauses"]
        assert (pause["queue"], pause["priority"], pause["by"]) == ("q", 3, "bob")
        second = desk.run("top").stdout.splitlines()[1]
        assert second.startswith("queue q, priority 3 is paused by bob since ")
        assert second.endswith(": the bank is down")

    def test_top_tells_the_five_numbers(self, desk: Desk) -> None:
        desk.submit("export")
        line = desk.run("top").stdout.splitlines()[1]
        assert line == "last 10 m: p99 -  failed -  canceled -  lost now 0"
        assert desk.ok("top")["numbers"] == {
            "window_s": 600,
            "in_queue": 1,
            "zombies_lost": 0,
            "running_duration_p99_seconds": None,
            "failed_rate": None,
            "canceled_rate": None,
            **dict.fromkeys(("success", "failed", "timeout", "canceled", "requeued"), 0),
            "types": [],
        }
        desk.claim("export", Owner("w7", 4, 4))  # of a node that nobody has ever heard of
        assert desk.ok("top")["numbers"]["zombies_lost"] == 1


class TestActs:
    def test_each_id_is_answered_on_its_own(self, desk: Desk) -> None:
        task_id = desk.submit("export")
        result = desk.run("cancel", task_id, BAD_ID, task_id, "--reason", "no", "--json")
        assert result.exit_code == 1
        answers = [
            (answer["task_id"], answer["done"], answer["answer"])
            for answer in json.loads(result.stdout)["tasks"]
        ]
        assert answers == [(task_id, True, "canceled"), (BAD_ID, False, "not found")]

    def test_rerun(self, desk: Desk) -> None:
        task_id = desk.failed()
        assert desk.ok("rerun", task_id[:25], "--reason", "again")["tasks"][0]["state"] == "PENDING"
        assert desk.run("rerun", task_id, "--reason", "again").exit_code == 1

    def test_fail_marks_what_runs(self, desk: Desk) -> None:
        task_id = desk.submit("export")
        desk.claim("export")
        [answer] = desk.ok("fail", task_id, "--reason", "stuck")["tasks"]
        assert (answer["answer"], answer["state"]) == ("requested", "RUNNING")

    def test_what_has_ended_says_when(self, desk: Desk) -> None:
        task_id = desk.failed()
        ended = datetime.fromisoformat(desk.ok("show", task_id)["ended_at"])
        result = desk.run("cancel", task_id, "--reason", "x")
        assert result.exit_code == 1
        assert result.stdout.splitlines()[1].endswith(
            f"too late: it ended FAILED at {clock(ended)}"
        )


class TestAutopsies:
    def bundle(self, desk: Desk) -> tuple[str, AutopsyRecord]:
        task_id = desk.failed()
        path = desk.folder / "why.zip"
        taken = take(Order(pid=os.getpid(), out=path, facts={"why": "stalled"}, facts_only=True))
        record = AutopsyRecord(
            autopsy_id="autopsy-1", task_id=task_id, attempt=1, node_id="n1", pid=1,
            path=str(path), status=taken.status, verdict="stalled", diagnosis="unknown",
            diagnosis_json="[]", created_at=datetime(2026, 1, 2, tzinfo=UTC),
            bytes=taken.size_bytes, ms=3,
        )  # fmt: skip
        client = desk.client()
        client.record_autopsy(record)
        client.close()
        return task_id, record

    def test_list_and_show_by_either_id(self, desk: Desk) -> None:
        task_id, record = self.bundle(desk)
        for args in ([], [task_id[:20]]):
            [found] = desk.ok("autopsy", "list", *args)["autopsies"]
            assert (found["autopsy_id"], found["task_id"]) == ("autopsy-1", task_id)
        by_own = desk.ok("autopsy", "show", "autopsy-1")
        assert by_own == desk.ok("autopsy", "show", task_id)
        assert f"Autopsy of process {os.getpid()}" in by_own["report"]
        assert desk.run("autopsy", "show", task_id).stdout.strip() == by_own["report"].strip()
        assert "autopsy autopsy-1" in desk.run("show", task_id).stdout
        assert record.status == "partial"

    def test_export_does_not_overwrite_by_accident(self, desk: Desk) -> None:
        _, record = self.bundle(desk)
        target = str(desk.folder / "copy.zip")
        assert desk.ok("autopsy", "export", "autopsy-1", "--to", target)["file"] == target
        assert Path(target).read_bytes() == Path(record.path).read_bytes()
        again = desk.run("autopsy", "export", "autopsy-1", "--to", target)
        assert (again.exit_code, "--force" in again.stderr) == (1, True)
        assert desk.run("autopsy", "export", "autopsy-1", "--to", target, "--force").exit_code == 0

    def test_a_bundle_that_is_gone_or_damaged_is_refused(self, desk: Desk) -> None:
        _, record = self.bundle(desk)
        Path(record.path).write_bytes(b"PK")
        damaged = desk.run("autopsy", "export", "autopsy-1")
        assert (damaged.exit_code, "damaged" in damaged.stderr) == (1, True)
        Path(record.path).unlink()
        gone = desk.run("autopsy", "show", "autopsy-1")
        assert gone.exit_code == 1
        assert "is not there; its diagnosis was unknown" in gone.stderr
        assert "remedy: Look on the host" in gone.stderr

    def test_what_does_not_run_cannot_be_captured(self, desk: Desk) -> None:
        result = desk.run("autopsy", "capture", desk.failed())
        assert (result.exit_code, "no process runs it" in result.stderr) == (1, True)


class TestCheck:
    def findings(self, result: Result) -> dict[str, str]:
        return {f["about"]: f["level"] for f in json.loads(result.stdout)["findings"]}

    def check(self, desk: Desk, *args: str) -> Result:
        return desk.run("check", "--json", *args, SUPERVISOR_METRICS_LISTEN="127.0.0.1:0")

    def test_a_fresh_host_has_no_store_yet(self, desk: Desk) -> None:
        result = self.check(desk)
        assert result.exit_code == 0
        assert self.findings(result)["store"] == "warn"
        assert not (desk.folder / "supervisor.db").exists()

    def test_all_is_well(self, desk: Desk) -> None:
        desk.ok("db", "upgrade")
        found = self.findings(self.check(desk))
        found.pop("evidence")  # depends on what the host allows
        assert found == dict.fromkeys(
            ("host", "name", "settings", "grace", "store", "autopsies", "metrics", "traces"), "ok"
        )

    def test_a_short_grace_is_refused_with_the_sum(self, desk: Desk) -> None:
        result = desk.run("check", "--grace", "45")
        assert result.exit_code == 2
        assert "127 s" in result.stdout
        assert desk.run("check", "--grace", "128").exit_code == 0

    def test_settings_that_disagree(self, desk: Desk) -> None:
        result = self.check(desk, "--config", self.toml(desk, "retry_max = 5"))
        assert (result.exit_code, self.findings(result)["settings"]) == (2, "fail")
        result = self.check(desk, "--config", self.toml(desk, "lease = 'x'"))
        assert (result.exit_code, self.findings(result)["settings"]) == (2, "fail")

    def toml(self, desk: Desk, line: str) -> str:
        path = desk.folder / "given.toml"
        path.write_text(f"[supervisor]\n{line}\n", "utf-8")
        return str(path)

    def test_a_place_that_is_no_folder_is_the_store_that_is_away(self, desk: Desk) -> None:
        (desk.folder / "file").write_text("", "utf-8")
        result = self.check(desk, "--store", f"sqlite:///{desk.folder}/file/a.db")
        found = {f["about"]: f for f in json.loads(result.stdout)["findings"]}
        assert (result.exit_code, found["store"]["code"], found["autopsies"]["code"]) == (69, 69, 2)
        assert found["host"]["code"] == 0
        made = desk.run("submit", "a", "--store", f"sqlite:///{desk.folder}/file/a.db")
        assert (made.exit_code, "cannot create the store" in made.stderr) == (69, True)

    def test_a_taken_address_is_named_once(self, desk: Desk) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            listen = f"127.0.0.1:{taken.getsockname()[1]}"
            result = desk.run("check", SUPERVISOR_METRICS_LISTEN=listen)
        assert f"metrics: {listen} cannot be taken: Address already in use\n" in result.stdout

    def test_an_app_that_exits_is_one_finding(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (desk.folder / "exits_cli.py").write_text("import sys\nsys.exit(3)\n", "utf-8")
        monkeypatch.syspath_prepend(desk.folder)
        result = self.check(desk, "exits_cli:app")
        assert result.exit_code == 2
        [finding] = [f for f in json.loads(result.stdout)["findings"] if f["level"] == "fail"]
        assert finding == {
            "about": "app",
            "level": "fail",
            "text": (
                f"importing 'exits_cli' raised SystemExit: 3 (at {desk.folder}/exits_cli.py:2)"
            ),
            "remedy": "Run `python -c 'import exits_cli'` in the same directory and mend it.",
            "code": 2,
        }

    def test_a_wrong_setting_of_a_type_is_told_with_its_line(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        text = "from supervisor import App\napp = App()\n@app.task(stall=20)\ndef sync(ctx): ...\n"
        (desk.folder / "wrong_cli.py").write_text(text, "utf-8")
        monkeypatch.syspath_prepend(desk.folder)
        told = self.check(desk, "wrong_cli:app").stdout
        assert f"(task sync) (at {desk.folder}/wrong_cli.py:3)" in told

    def test_a_file_that_is_no_store(self, desk: Desk) -> None:
        (desk.folder / "supervisor.db").write_text("not a database, not at all, no " * 100)
        result = self.check(desk)
        assert (result.exit_code, self.findings(result)["store"]) == (69, "fail")

    def test_an_app(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        (desk.folder / "fine_cli.py").write_text(
            "from supervisor import App\napp = App()\n@app.task\ndef export(ctx): ...\n", "utf-8"
        )
        (desk.folder / "broken_cli.py").write_text("import no_such_thing\n", "utf-8")
        monkeypatch.syspath_prepend(desk.folder)
        assert self.findings(self.check(desk, "fine_cli:app"))["app"] == "ok"
        path = desk.folder / "typo.toml"
        path.write_text("[type.exprt]\ntimeout = 5\n", "utf-8")
        typo = self.check(desk, "fine_cli:app", "--config", str(path))
        assert "[type.exprt] names no task type of fine_cli:app" in typo.stdout
        broken = self.check(desk, "broken_cli:app")
        assert (broken.exit_code, self.findings(broken)["app"]) == (2, "fail")
        assert "no_such_thing" in broken.stdout

    def test_an_app_that_submits_elsewhere(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (desk.folder / "elsewhere_cli.py").write_text(
            "from supervisor import App\napp = App(store='sqlite:////elsewhere/b.db')\n"
            "@app.task\ndef export(ctx): ...\n",
            "utf-8",
        )
        monkeypatch.syspath_prepend(desk.folder)
        monkeypatch.delenv("SUPERVISOR_STORE", raising=False)
        result = CliRunner().invoke(
            build(), ["check", "elsewhere_cli:app", "--store", desk.url, "--json"]
        )
        assert f"the app submits to sqlite:////elsewhere/b.db, a node would run on {desk.url}" in (
            result.stdout
        )

    def test_every_finding_that_is_not_ok_has_a_remedy(self, desk: Desk) -> None:
        for args in ((), ("--grace", "1"), ("--config", self.toml(desk, "retry_max = 5"))):
            for finding in json.loads(self.check(desk, *args).stdout)["findings"]:
                assert (finding["level"] == "ok") != bool(finding["remedy"]), finding


class TestConfig:
    def test_values_with_their_sources(self, desk: Desk) -> None:
        (desk.folder / "supervisor.toml").write_text(
            "[supervisor]\nlease = 40\n[type.export]\ntimeout = 5\n", "utf-8"
        )
        document = desk.ok("config", "--workers", "3")
        assert document["settings"]["workers"] == {
            "value": 3, "source": "flag --workers", "unit": "",
        }  # fmt: skip
        assert document["settings"]["lease"]["source"] == "supervisor.toml [supervisor]"
        assert document["settings"]["store"]["source"] == "environment SUPERVISOR_STORE"
        assert document["type"] == {"export": {"timeout": 5.0}}
        text = desk.run("config").stdout
        assert "[type.export] timeout = 5" in text
        assert "restart_intensity" in text

    def test_the_apps_view_is_the_same(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SUPERVISOR_STORE", desk.url)
        (desk.folder / "supervisor.toml").write_text("[supervisor]\nlease = 40\n", "utf-8")
        assert App().settings.lease == desk.ok("config")["settings"]["lease"]["value"] == 40


def test_db_upgrade_makes_a_private_store(desk: Desk) -> None:
    assert desk.ok("db", "upgrade")["schema"]
    assert desk.ok("db", "upgrade")["store"] == desk.url
    assert stat.S_IMODE((desk.folder / "supervisor.db").stat().st_mode) == 0o600


class TestIds:
    """Ids begin with the time: those of one minute are told apart by their end."""

    EARLY, LATE = "01a228b4" + "a" * 16 + "00c0ffee", "01a228b4" + "b" * 16 + "11c0ffee"

    @pytest.fixture
    def two(self, desk: Desk) -> tuple[str, str]:
        first, second = (f"task_{digits}" for digits in (self.EARLY, self.LATE))
        desk.submit("export", "--task-id", first)
        desk.submit("export", "--task-id", second)
        return first, second

    def test_the_end_will_do_everywhere(self, desk: Desk, two: tuple[str, str]) -> None:
        first, second = two
        assert desk.ok("show", "00c0ffee")["task_id"] == first
        assert desk.ok("show", "…11c0ffee")["task_id"] == second
        assert desk.ok("history", "11c0ffee")["history"][0]["task_id"] == second
        assert desk.ok("logs", "0c0ffee")["task_id"] == first
        [page] = desk.ok("list", "--find", "11c0ffee")["tasks"]
        assert page["task_id"] == second
        [acted] = desk.ok("cancel", "11c0ffee", "--reason", "x")["tasks"]
        assert (acted["task_id"], acted["answer"]) == (second, "canceled")

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ("01a228b4", "may be any of several tasks, among them"),
            ("c0ffee", "may be any of several tasks, among them"),
            ("ffee", "ffee is too short for the id of a task"),
            ("task_01a228b", "task_01a228b is too short for the id of a task"),
            ("abcdef12", "no task abcdef12"),
            ("export", "no task export"),
        ],
    )
    def test_what_names_no_task_or_several_is_refused(
        self, desk: Desk, two: tuple[str, str], given: str, message: str
    ) -> None:
        result = desk.run("show", given)
        assert result.exit_code == 1
        assert message in result.stderr
        if "several" in message:
            assert all(task_id in result.stderr for task_id in two)
            assert "remedy: Give the end of the one you mean, like 00c0ffee." in result.stderr
        if "too short" in message:
            remedy = "Give at least 6 digits of its end or 8 of its beginning."
            assert f"remedy: {remedy}" in result.stderr
