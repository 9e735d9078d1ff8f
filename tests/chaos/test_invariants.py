"""The judgement of storms and crash points can object: stores doctored on purpose, one by one.

A store is made with the ledger itself: a task that returned, one that failed, was retried and came
through, one that was canceled, one that a dead node had run, and a child. It is found without
fault; then one thing is changed in a copy, and exactly that must be found.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from invariants import Account

from supervisor.clock import SystemClock
from supervisor.model import outcome as ended
from supervisor.model.outcome import Outcome
from supervisor.model.record import ChildSpec, Claim, Ending, NodeRecord, Owner, ProcessIdentity
from supervisor.model.retry import RetryPolicy
from supervisor.model.spec import TaskSpec
from supervisor.store import Ledger, open_store

POLICY = RetryPolicy(max_retries=3, base_s=0.0, max_s=0.0, max_crashes=3)
DONE = frozenset({("SUCCESS", "returned")})


class Story:
    """A store with a little history, and the file of executions that belongs to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = SystemClock()
        self.now = self.clock.now()
        self.ids: dict[str, str] = {}
        self.lines: list[str] = []
        with closing(open_store(f"sqlite:///{folder}/tasks.db", create=True)) as store:
            self.ledger = Ledger(store, self.clock)
            self._tell()
        (folder / "runs").write_text("".join(self.lines))

    def _tell(self) -> None:
        self._node("node_a")
        self._run("plain", ended.returned("1"))
        self._run("retried", ended.raised("ValueError", "no", ""), ended.returned("1"))
        self._run("lost", ended.node_lost("gone", "node_a"), ended.returned("1"))
        child = ChildSpec('{"type": "child"}')
        self._run("parent", ended.returned("1"), children=(child,))
        self._finish(self._claim("child"), ended.returned("1"))
        self._submit("canceled")
        with self.ledger.transaction() as tx:
            tx.cancel([self.ids["canceled"]], by="anna", reason="no", now=self.now)
            tx.end_node("node_a", self.now, "dead")
            tx.publish(100, self.now)
        self._node("node_b")

    def _node(self, node_id: str) -> None:
        own = ProcessIdentity(pid=7, start_ticks=70, boot_id="boot", pid_ns=1)
        with self.ledger.transaction() as tx:
            tx.register_node(
                NodeRecord(
                    node_id=node_id, node_name="host", process=own, version="1", listen="",
                    started_at=self.now,
                )
            )  # fmt: skip

    def _submit(self, name: str) -> None:
        with self.ledger.transaction() as tx:
            self.ids[name] = tx.submit([TaskSpec(type=name)], self.now)[0].task_id

    def _run(self, name: str, *outcomes: Outcome, children: tuple[ChildSpec, ...] = ()) -> None:
        self._submit(name)
        for outcome in outcomes:
            self._finish(self._claim(name), outcome, children)

    def _claim(self, name: str) -> Claim:
        self.now += timedelta(seconds=1)
        with self.ledger.transaction() as tx:
            (claim,) = tx.claim(
                [Owner("worker", 100, 5000)], node_id="node_a", queues=None,
                types={name}, now=self.now,
            )  # fmt: skip
        self.lines.append(f"{claim.task_id} {claim.attempt} 100 0.0\n")
        self.ids[name] = claim.task_id
        return claim

    def _finish(self, claim: Claim, outcome: Outcome, children: tuple[ChildSpec, ...] = ()) -> None:
        ending = Ending(
            task_id=claim.task_id, attempt=claim.attempt, outcome=outcome, policy=POLICY,
            started_at=self.now, ended_at=self.now, type=claim.type, children=children,
        )  # fmt: skip
        with self.ledger.transaction() as tx:
            tx.finish([ending], now=self.now)


@dataclass
class Copy:
    """A store to be doctored, and the judgement of it."""

    folder: Path
    ids: dict[str, str]

    def change(self, sql: str, *names: str) -> None:
        """Change the store with one statement; each `?` stands for the id of a named task."""
        with closing(sqlite3.connect(self.folder / "tasks.db")) as db:
            done = db.execute(sql, [self.ids[name] for name in names])
            assert done.rowcount > 0, "the doctoring changed nothing"
            db.commit()

    def violations(self) -> list[str]:
        expected = {self.ids[name]: DONE for name in ("plain", "retried", "lost", "parent")}
        expected[self.ids["canceled"]] = frozenset({("CANCELED", "canceled")})
        return Account(self._query, expected, self.folder / "runs").violations()

    def _query(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.folder / "tasks.db")) as db:
            return db.execute(sql).fetchall()

    def judged(self) -> set[str]:
        """Return the kinds of violation that are found."""
        return {line.split(" ")[0].rstrip(":") for line in self.violations()}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return Story(tmp_path_factory.mktemp("story"))


@pytest.fixture
def copy(story: Story, tmp_path: Path) -> Copy:
    for name in ("tasks.db", "runs"):
        shutil.copy(story.folder / name, tmp_path / name)
    return Copy(tmp_path, story.ids)


def test_an_honest_store_has_no_violation(copy: Copy) -> None:
    assert copy.violations() == []


BUNDLE = (
    "INSERT INTO autopsies (autopsy_id, task_id, node_id, pid, path, status, created_at, bytes, ms)"
)
AUDIT = "INSERT INTO audit_log (task_id, attempt, at, from_state, to_state, operator, reason) "
#: what was done → the statement, the tasks it names, the kinds of violation
DOCTORED: dict[str, tuple[str, tuple[str, ...], set[str]]] = {
    "a task was lost, row and trail": (
        "DELETE FROM tasks WHERE task_id = ?", ("plain",), {"lost"},
    ),
    "a task never ended": (
        "UPDATE tasks SET state = 'RUNNING' WHERE task_id = ?", ("plain",),
        {"lost", "illegal", "wrong"},
    ),
    "the row says other than the trail": (
        "UPDATE tasks SET state = 'FAILED', reason = 'raised' WHERE task_id = ?", ("plain",),
        {"illegal", "wrong"},
    ),
    "the ending was not audited": (
        "DELETE FROM audit_log WHERE task_id = ? AND from_state = 'RUNNING'", ("plain",),
        {"illegal", "endings", "twice"},
    ),
    "the claim was not audited": (
        "DELETE FROM audit_log WHERE task_id = ? AND to_state = 'RUNNING'", ("plain",),
        {"illegal", "endings"},
    ),
    "the submit was not audited": (
        "DELETE FROM audit_log WHERE task_id = ? AND from_state IS NULL", ("plain",), {"illegal"},
    ),
    "a second ending of the same attempt": (
        AUDIT + "VALUES (?, 1, 1, 'RUNNING', 'FAILED', 'supervisor', 'raised')", ("plain",),
        {"illegal", "endings"},
    ),
    "a move that is not in the table": (
        AUDIT + "VALUES (?, 1, 1, 'SUCCESS', 'PENDING', 'supervisor', 'retry')", ("plain",),
        {"illegal"},
    ),
    "claimed twice with one number": (
        "UPDATE audit_log SET attempt = 1 WHERE task_id = ? AND to_state = 'RUNNING'",
        ("retried",), {"endings"},
    ),
    "an attempt was forgotten": (
        "DELETE FROM attempts WHERE task_id = ? AND attempt = 1", ("retried",),
        {"endings", "attempts"},
    ),
    "an attempt has no outcome": (
        "UPDATE attempts SET outcome = NULL, reason = NULL WHERE task_id = ?", ("plain",),
        {"endings"},
    ),
    "the retry is not explained": (
        "UPDATE audit_log SET reason = 'returned' WHERE task_id = ? AND reason = 'node_lost'",
        ("lost",), {"endings", "twice"},
    ),
    "it ran and is said not to have started": (
        "UPDATE audit_log SET reason = 'never_started' WHERE task_id = ? AND reason = 'node_lost'",
        ("lost",), {"endings", "twice"},
    ),
    "the child of nobody": (
        "UPDATE tasks SET parent_id = NULL WHERE task_id = ?", ("child",), {"lost"},
    ),
    "an event was never published": (
        "INSERT INTO outbox VALUES (?, 0, 'due', 0, 0)", ("plain",), {"loose"},
    ),
    "a dead node counts as running": (
        "UPDATE nodes SET ended_at = NULL", (), {"loose"},
    ),
    "a bundle that is not there": (
        BUNDLE + " VALUES ('a', ?, 'node_a', 1, '/nowhere/a.zip', 'complete', 0, 0, 0)",
        ("plain",), {"bundle"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", DOCTORED)
def test_a_doctored_store_is_found_out(copy: Copy, what: str) -> None:
    sql, names, kinds = DOCTORED[what]
    copy.change(sql, *names)
    assert copy.judged() == kinds


RUNS: dict[str, tuple[Callable[[list[str]], list[str]], set[str]]] = {
    "one attempt ran twice": (lambda lines: [*lines, lines[0]], {"twice"}),
    "a success that never ran": (lambda lines: lines[1:], {"lost"}),
    "an attempt nobody claimed": (
        lambda lines: [*lines, lines[0].replace(" 1 100", " 2 100")],
        {"twice", "lost"},
    ),
}


@pytest.mark.parametrize("what", RUNS)
def test_executions_that_do_not_fit_are_found_out(copy: Copy, what: str) -> None:
    change, kinds = RUNS[what]
    runs = copy.folder / "runs"
    runs.write_text("".join(change(runs.read_text().splitlines(keepends=True))))
    assert copy.judged() == kinds


def test_executions_at_the_same_time_are_found_out(copy: Copy) -> None:
    """Of one task: the second begins when the first is seen at work for the last time."""
    lost, plain = copy.ids["lost"], copy.ids["plain"]
    stamps = [f"{lost} 1 a 1.0", f"{lost} 1 a 2.0", f"{lost} 2 b 2.5", f"{plain} 1 b 1.5"]
    file = copy.folder / "runs.stamps"
    file.write_text("".join(f"{line}\n" for line in stamps))
    assert copy.violations() == []
    file.write_text("".join(f"{line}\n" for line in [*stamps, f"{lost} 1 a 2.6"]))
    (found,) = copy.violations()
    assert found.startswith("overlap: ")
    assert found.endswith(", for 0.100 s")


def test_a_task_that_was_answered_for_and_never_written(copy: Copy) -> None:
    copy.ids = {**copy.ids, "plain": "task_never_written"}
    found = copy.violations()
    assert any("task_never_written was submitted and is not stored" in line for line in found)
