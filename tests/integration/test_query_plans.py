"""Every statement of the ledger's verbs and the reader's views, on a store with very many rows.

The rule: no statement reads tasks, attempts, audit_log, outbox, autopsies or workers, or an index
of all their rows, from one end to the other; and none looks at more rows of them than `ROWS`
(PostgreSQL) or does more than `STEPS` steps (SQLite). The statements are those that the drivers
were given by every public verb and view. What may do more is listed, each with its reason, and a
line that is not needed is a failure too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import pytest
import servers
from large_store import asked_on_file, asked_on_server, filled_database, filled_file
from statements import Sent, Wire

from bench.bulk import LAST_MS, STEP_MS, Rows, ended_id
from supervisor.model import outcome
from supervisor.model.record import Claim, Ending, NodeRecord, Owner, ProcessIdentity, Started
from supervisor.model.retry import RetryPolicy
from supervisor.model.spec import TaskSpec
from supervisor.model.states import State
from supervisor.store import (
    AutopsyRecord,
    Ledger,
    Look,
    Reader,
    Store,
    TaskFilter,
    Transaction,
    WorkerRecord,
)
from supervisor.store.alerts import AlertBook
from supervisor.store.archive import Archive, Wanted
from supervisor.store.habit import Habits
from supervisor.store.kin import children_of
from supervisor.store.numbers import Numbers
from supervisor.store.record import Retired
from supervisor.store.roster import Roster
from supervisor.store.schema import from_micros
from supervisor.store.trail import Trail, TrailFilter
from supervisor.store.trend import Trend
from supervisor.store.view import AutopsyFilter

SIZE = Rows(ended=100_000, pending=12_000, workers=10_000, autopsies=6_000)
BIG = frozenset({"tasks", "attempts", "audit_log", "outbox", "autopsies", "workers"})
#: A page has at most 500 rows; 500 archived tasks are deleted with some 2,500 audit rows.
ROWS = 3_000
#: What reading about as many rows is for SQLite; all workers would be 100,000.
STEPS = 25_000
#: Each act is done so often: PostgreSQL keeps a plan from the second time on.
ROUNDS = 3


_COUNTS = "counts what waits: reads tasks_due, and nothing of the tasks themselves"
#: What may do more work, by its label, with the reason.
MAY: Mapping[str, str] = MappingProxyType(
    {
        "counts": "counts all tasks: reads tasks_by_state and tasks_due, and no task itself",
        "by_state": "counts all tasks: reads tasks_by_state, and no task itself",
        "backlog_by_queue": _COUNTS,
        "backlog_by_type": _COUNTS,
        "live": _COUNTS,
        "levels": _COUNTS,
        "ended": "reads the endings of ten minutes (here 6,000) by the audit trail's own ids",
        "hour": "counts an hour's moves once by the audit trail's own ids, then two minutes'",
        "queues": _COUNTS,
        "tasks, tested": "no index has what is sought: a window of 15,000 tasks is tested",
        "find_autopsies, tested": "no index has what is sought: a window of bundles is tested",
        "find_autopsies": "no index has what is sought: a window of 20,000 bundles is tested",
        "find, tested": "no index has what is sought: a window of 20,000 rows is tested",
        "ids_ending": "no index has ids by their end: reads those of a million tasks of each state",
        "clock_set": "the wall clock was set back: all that waits may be due by another time",
    }
)

_NODE = "node_plans"
_POLICY = RetryPolicy(max_retries=1, base_s=10, max_s=3600, max_crashes=3)


@dataclass
class Desk:
    """A large store, a hand for every verb, and the wire that tells what was sent."""

    store: Store
    wire: Wire
    round: int = 0
    now: Any = field(default_factory=lambda: from_micros((LAST_MS + 60_000) * 1000))

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.store)
        self.reader = Reader(self.store)
        self.numbers = Numbers(self.store)
        self.roster = Roster(self.store)
        self.trend = Trend(self.store)
        self.trail = Trail(self.store)
        self.alerts = AlertBook(self.store)
        self.habits = Habits(self.store)

    def does(self, label: str, act: Callable[[Transaction], Any]) -> Any:
        """Do one act in a transaction of its own."""
        with self.wire.as_(label), self.ledger.transaction() as tx:
            return act(tx)

    def looks(self, label: str, act: Callable[[Look], Any]) -> Any:
        with self.wire.as_(label), self.ledger.looking() as look:
            return act(look)

    def counts(self, label: str, act: Callable[[Numbers], Any]) -> Any:
        with self.wire.as_(label):
            return act(self.numbers)

    def sees(self, label: str, act: Callable[[Reader], Any]) -> Any:
        with self.wire.as_(label):
            return act(self.reader)

    # -- acts

    def submitted(self, count: int, **fields: Any) -> list[str]:
        specs = [TaskSpec(type="plan", queue="plans", **fields)] * count
        answers = self.does("submit", lambda tx: tx.submit(specs, self.now))
        return [answer.task_id for answer in answers]

    def claimed(self, count: int, **how: Any) -> list[Claim]:
        owners = [Owner(f"worker_{n}", n, 1) for n in range(count)]
        how = {"queues": None, "types": {"plan"}, "node_id": _NODE, "now": self.now, **how}
        label = "claim by tips" if how.get("tips") else "claim"
        found: list[Claim] = self.does(label, lambda tx: tx.claim(owners, **how))
        return found

    def ended(self, claims: list[Claim], how: outcome.Outcome, **more: Any) -> None:
        endings = [
            Ending(
                task_id=claim.task_id,
                attempt=claim.attempt,
                outcome=how,
                policy=more.get("policy", _POLICY),
                ended_at=self.now,
                log_tail="tail",
            )
            for claim in claims
        ]
        self.does("finish", lambda tx: tx.finish(endings))

    def run(self) -> None:
        """Do everything once."""
        self.round += 1
        self.now += timedelta(seconds=1)
        self._life()
        self._steps_in()
        self._node()
        self._archive()
        self._look()

    def _life(self) -> None:
        ids = self.submitted(64)
        self.submitted(1, dedup_key=f"key {self.round}", task_id=None)
        self.submitted(1, dedup_key=f"key {self.round}")
        fixed = TaskSpec(type="plan", queue="plans", task_id=f"task_{self.round:032x}")
        self.does("submit", lambda tx: tx.submit([fixed], self.now))
        claims = self.claimed(30)
        claims += self.claimed(20, tips=ids, scan=False)
        claims += self.claimed(10, tips=ids)
        assert len(claims) == 60
        self.does(
            "started",
            lambda tx: tx.started(
                [
                    Started(
                        task_id=claim.task_id,
                        attempt=claim.attempt,
                        started_at=self.now,
                        timeout=60,
                        soft_timeout=54,
                    )
                    for claim in claims
                ]
            ),
        )
        first = claims[0]
        self.does("checkpoint", lambda tx: tx.checkpoint(first.task_id, 1, "{}", self.now))
        self.ended(claims[:30], outcome.returned("1"))
        failure = outcome.raised("ValueError", "no", "tb")
        self.ended(claims[30:40], failure)
        self.ended(claims[40:44], failure, policy=replace(_POLICY, max_retries=0))
        self.ended(claims[:2], failure)  # too late
        self.running = claims[44:]
        self.dead = [claim.task_id for claim in claims[40:44]]
        self.waiting = self.submitted(4)
        self.now += timedelta(seconds=20)
        assert self.claimed(64)  # the retries have checkpoints to look for

    def _steps_in(self) -> None:
        why = {"by": "anna", "reason": "plans", "now": self.now}
        running = [claim.task_id for claim in self.running]
        for ids in (self.submitted(4), running[:2]):
            self.does("cancel", lambda tx, ids=ids: tx.cancel(ids, **why))
        self.does("fail", lambda tx: tx.fail(running[2:4], **why))
        self.does("rerun", lambda tx: tx.rerun(self.dead, **why))
        self.does("resubmit", lambda tx: tx.resubmit(running[0], **why))
        old = ended_id(SIZE, 90 + 100 * self.round)  # FAILED
        assert self.does("rerun", lambda tx: tx.rerun([old], **why))[0].done
        for level in (None, 3):
            self.does("pause", lambda tx, level=level: tx.pause("other", level, **why))
            self.does("resume", lambda tx, level=level: tx.resume("other", level, **why))

    def _node(self) -> None:
        process = ProcessIdentity(pid=1, start_ticks=1, boot_id="b", pid_ns=1)
        node_id = f"{_NODE}_{self.round}"
        record = NodeRecord(
            node_id=node_id, node_name="n", process=process, version="0", started_at=self.now
        )
        lease = 60.0 if self.store.is_shared else None
        worker = WorkerRecord(
            worker_id=f"w_{self.round}", node_id=node_id, pid=1, start_ticks=1, started_at=self.now
        )
        bundle = AutopsyRecord(
            autopsy_id=f"b_{self.round}",
            task_id=self.running[0].task_id,
            attempt=1,
            node_id=node_id,
            pid=1,
            path="/b",
            status="captured",
            verdict=None,
            diagnosis=None,
            diagnosis_json=None,
            created_at=self.now,
            bytes=1,
            ms=1,
        )
        does = self.does
        does("register_node", lambda tx: tx.register_node(record, lease))
        does("record_types", lambda tx: tx.record_types({"plan": "plans"}, node_id, self.now))
        does("record_workers", lambda tx: tx.record_workers([worker]))
        does("record_autopsy", lambda tx: tx.record_autopsy(bundle))
        does("note", lambda tx: tx.note(None, None, reason="r", text="t", now=self.now))
        does("mind_clock", lambda tx: tx.mind_clock(self.now))
        does("clock_set", lambda tx: tx.clock_set(-2.0, self.now))
        does("publish", lambda tx: tx.publish(64, self.now))
        if self.store.is_shared:
            does("renew", lambda tx: tx.renew(node_id, 60.0, 0.0))
            does("revive", lambda tx: tx.revive(node_id, 60.0, 0.0))
            does("lead", lambda tx: tx.lead("role", node_id, 60.0))
            does("lapsed_nodes", lambda tx: tx.lapsed_nodes())
        does("end_node", lambda tx: tx.end_node(node_id, self.now, "over"))
        looks = self.looks
        looks("marks", lambda look: look.marks(_NODE))
        looks("orphans", lambda look: look.orphans("another"))
        looks("owned", lambda look: look.owned(_NODE))
        looks("open_orders", lambda look: look.open_orders(_NODE))
        looks("unended_nodes", lambda look: look.unended_nodes())
        types = {"plan", *(f"type_{n}" for n in range(20))}
        looks("outlook", lambda look: look.outlook(None, types)())
        does("outlook", lambda tx: tx.outlook(None, types)())

    def _archive(self) -> None:
        copies = []
        for number in range(20):
            task_id = ended_id(SIZE, 1000 * self.round + number)
            view, trail = self.reader.task(task_id), self.reader.history(task_id)
            assert view is not None
            ids = tuple(line.audit_id for line in trail)
            copies.append(
                Retired(
                    task_id=task_id,
                    state=view.state,
                    attempt=view.attempt,
                    ended_at=view.ended_at,
                    audit_ids=ids,
                    autopsy_ids=(),
                )
            )
        assert len(self.does("forget", lambda tx: tx.forget(copies))) == 20
        rows = [line.audit_id for line in self.reader.history(ended_id(SIZE, 500 + self.round))]
        self.does("forget_audit", lambda tx: tx.forget_audit(rows))
        oldest_ms = LAST_MS - SIZE.ended * STEP_MS
        before = from_micros((oldest_ms + self.round * 300 * STEP_MS) * 1000)
        assert before is not None
        wanted = Wanted(now=self.now, ended_before=before, audit_before=before, tasks_max=150)
        with self.wire.as_("archive"), TemporaryDirectory() as folder:
            assert Archive(self.ledger, Path(folder), by="anna").move(wanted).deleted_tasks == 150

    def _look(self) -> None:
        see, now = self.sees, self.now
        task_id = ended_id(SIZE, 4242)
        see("task", lambda r: r.task(task_id))
        see("task by its beginning", lambda r: r.task(task_id[:-2]))
        for wanted in (
            TaskFilter(),
            TaskFilter(before_id=task_id),
            TaskFilter(states=(State.SUCCESS, State.FAILED)),
            TaskFilter(types=("type_1", "type_2")),
        ):
            see("tasks", lambda r, wanted=wanted: r.tasks(wanted))
        for wanted in (
            TaskFilter(text="nothing like it"),
            TaskFilter(queues=("queue_9",)),
            TaskFilter(states=(State.PENDING,), types=("type_1",), tag="t"),
        ):
            see("tasks, tested", lambda r, wanted=wanted: r.tasks(wanted))
        see("ids_ending", lambda r: r.ids_ending("123456"))
        for name in ("attempts", "history", "checkpoint", "log"):
            see(name, lambda r, name=name: getattr(r, name)(task_id))
        see("attempts", lambda r: r.attempts(task_id, 100))
        see("history", lambda r: r.history(task_id, 1_000))
        see("task, its children", lambda r: children_of(r.store, task_id))
        see("audit", lambda r: (r.audit(), r.audit(before_id=500_000)))
        for name in ("counts", "backlog_by_queue", "backlog_by_type", "queues"):
            see(name, lambda r, name=name: getattr(r, name)(now))
        see("by_state", lambda r: r.by_state())
        see("pauses", lambda r: r.pauses("queue_1", 3))
        see("every_pause", lambda r: r.every_pause())
        see("knows_queue", lambda r: r.knows_queue("queue_1"))
        see("nodes", lambda r: r.nodes())
        see("types", lambda r: r.types())
        see("workers", lambda r: (r.workers(), r.workers("node_1")))
        see("autopsies", lambda r: (r.autopsies(), r.autopsies(task_id)))
        some = AutopsyFilter(type="type_1", verdict="timeout")
        see("find_autopsies", lambda r: r.find_autopsies(AutopsyFilter()))
        see("find_autopsies, tested", lambda r: r.find_autopsies(some))
        see("autopsy", lambda r: r.autopsy("a_1"))
        last = from_micros(LAST_MS * 1000)
        assert last is not None
        [overall, *_] = self.counts("ended", lambda n: n.ended(last))
        assert overall.success > 1000
        self.counts("live", lambda n: n.live(now))
        self.counts("levels", lambda n: n.levels(now))
        with self.wire.as_("hour"):
            assert sum(one.success for one in self.trend.hour(last).minutes) > 10_000
        for name in ("at_work", "ended_workers"):
            with self.wire.as_(name):
                getattr(self.roster, name)()
        with self.wire.as_("living"):
            assert len(self.roster.living()) >= 10
        with self.wire.as_("over"):
            assert len(self.roster.over([f"w_{n:016x}" for n in range(800)])) == 799
        self._trail(task_id, last)
        with self.wire.as_("limits"):
            assert set(self.habits.limits(["type_1", "plan", "nothing"])) == {"plan"}
        for name in ("firing", "find", "has_any"):
            with self.wire.as_(name):
                getattr(self.alerts, name)()
        self.counts("lost", lambda n: n.lost(now, dead=(), node_id="node_1"))
        self.counts("types", lambda n: n.types())

    def _trail(self, task_id: str, last: datetime) -> None:
        """Look through the audit trail by each of its filters."""
        hour = timedelta(hours=1)
        for wanted in (
            TrailFilter(),
            TrailFilter(before_id=500_000),
            TrailFilter(task_id=task_id),
            TrailFilter(task_id=task_id, operator="anna"),
        ):
            with self.wire.as_("find"):
                assert self.trail.find(wanted).lines is not None
        with self.wire.as_("find"):
            assert self.trail.find(TrailFilter(only_people=True)).lines
        for wanted in (
            TrailFilter(operator="anna"),
            TrailFilter(operator="nobody"),
            TrailFilter(only_people=True, with_access=False, since=last - hour),
            TrailFilter(reasons={"nothing"}),
            TrailFilter(with_access=False),
            TrailFilter(since=last - hour, until=last - hour / 2, reasons={"nothing"}),
            TrailFilter(operator="supervisor", reasons={"nothing"}, before_id=700_000),
        ):
            with self.wire.as_("find, tested"):
                self.trail.find(wanted)


def _public(kind: type) -> set[str]:
    found = inspect.getmembers(kind, inspect.isfunction)
    return {name for name, _ in found if not name.startswith("_")}


def _broken(sent: list[Sent]) -> list[str]:
    """Return what does more work than it may, and what is listed and does not."""
    found: dict[str, str] = {}
    for one in sent:
        many = {table: n for table, n in one.visited.items() if table in BIG and n > ROWS}
        if many or one.steps > STEPS:
            found[one.label] = f"{one.label}: {many or one.steps}: {one.sql}"
    needless = [f"{label} is listed and does little" for label in MAY if label not in found]
    return [told for label, told in found.items() if label not in MAY] + needless


def _read_whole(sent: list[Sent]) -> list[str]:
    """Return what reads a large table, or an index of all its rows, and does not stop on the way.

    To count, an index may be read alone.
    """
    return [
        f"{one.label}: {scan}: {one.sql}"
        for one in sent
        for scan in one.whole(BIG)
        if not (scan.alone and one.label in MAY)
    ]


def _all_done(desk: Desk) -> None:
    for _ in range(ROUNDS):
        desk.run()
    done = {one.label.split(",")[0].split()[0] for one in desk.wire.sent} - {"archive"}
    shared = set() if desk.store.is_shared else {"renew", "revive", "lead", "lapsed_nodes"}
    kinds = (Transaction, Reader, Numbers, Roster, Trend, Trail, AlertBook, Habits)
    public = set[str]().union(*map(_public, kinds))
    assert done == public - shared - {"store"}


@pytest.mark.parametrize("counted", [False, True], ids=["as it is", "analyzed"])
def test_on_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large_file: Path, counted: bool
) -> None:
    with asked_on_file(monkeypatch, large_file, tmp_path, counted=counted) as (store, wire):
        _all_done(Desk(store, wire))
    assert _broken(wire.sent) == []
    assert _read_whole(wire.sent) == []


@pytest.mark.parametrize("counted", [False, True], ids=["as it is", "analyzed"])
def test_on_a_server(monkeypatch: pytest.MonkeyPatch, large_database: str, counted: bool) -> None:
    with asked_on_server(monkeypatch, large_database, counted=counted) as (store, wire):
        _all_done(Desk(store, wire, round=ROUNDS * counted))
    assert _broken(wire.sent) == []
    assert _read_whole(wire.sent) == []


@pytest.fixture(scope="module")
def large_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled_file(tmp_path_factory.mktemp("large"), SIZE)


@pytest.fixture(scope="module")
def large_database(postgresql: servers.PostgreSQL) -> Iterator[str]:
    with filled_database(postgresql, "plans", SIZE) as url:
        yield url
