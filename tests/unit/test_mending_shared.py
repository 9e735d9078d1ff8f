"""Tasks of nodes that share the store: ended by the leader, on a process seen gone or a lease."""

from __future__ import annotations

import os
from datetime import datetime, timedelta

import pytest

from supervisor.model.lease import plan
from supervisor.model.outcome import TaskFacts, settle
from supervisor.model.record import NodeRecord, ProcessIdentity
from supervisor.model.states import State
from supervisor.node import port
from supervisor.node.accounting import Accounting
from supervisor.node.closing import Closing
from supervisor.node.floor import Floor
from supervisor.node.mending import Mending
from supervisor.node.reporting import Reporting
from supervisor.node.staffing import Staffing
from supervisor.settings import load_settings
from supervisor.store.record import Orphan
from supervisor.telemetry.metrics import Metrics
from supervisor.testing import START, ManualClock, MemoryScribe, ScriptedPool
from supervisor.worker import tree
from supervisor.worker.wire import TypeInfo

OWN = ProcessIdentity(pid=os.getpid(), start_ticks=1, boot_id="boot", pid_ns=1)
ELSEWHERE = ProcessIdentity(pid=1, start_ticks=1, boot_id="another boot", pid_ns=1)
GONE = ProcessIdentity(pid=2**22 + 1, start_ticks=1, boot_id="boot", pid_ns=1)


class Desk:
    """The rounds of one node of many."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        settings = load_settings({"requeue_safety": 30}, {}, None)
        self.pool, self.scribe = ScriptedPool(self.clock, {}), MemoryScribe(self.clock)
        self.metrics = Metrics(version="t", types=["quick"])
        self.floor = Floor("n1", settings, self.clock, self.pool, self.scribe, self.metrics)
        self.floor.lease = plan(90.0, 10.0, 10.0)
        self.floor.types["quick"] = TypeInfo(name="quick", options={})
        self.mending = Mending(self.floor, OWN)
        staffing = Staffing(self.floor, Closing(self.floor), "app:app")
        self.reporting = Reporting(self.floor, staffing, self.mending, Accounting(self.floor))

    def sweep(self, *orphans: Orphan, term: int | None = 1) -> list[tuple[str, str]]:
        """Let the leader read these; return (task, proof) of what it ended."""
        before = len(self.floor.endings)
        self.mending.hear(port.OrphansRead(orphans, term), self.clock.mono())
        return [(e.task_id, e.outcome.proof) for e in self.floor.endings[before:]]

    def written(self, *, first: bool) -> None:
        """Hear that the endings are in the store, if nobody else was there before."""
        facts, ended = TaskFacts(retry_count=0, crash_count=0), self.floor.take_endings()
        results = tuple(
            (one, settle(facts, one.outcome, one.policy, one.ended_at, 0.0) if first else None)
            for one in ended[0].endings
        )
        self.reporting.endings(port.EndingsWritten(results))


@pytest.fixture
def desk() -> Desk:
    return Desk()


def orphan(
    name: str, process: ProcessIdentity | None, over_s: float | None, *, worker_pid: int = 2**22 + 2
) -> Orphan:
    node = None
    if process is not None:
        node = NodeRecord(
            node_id=f"node-{name}", node_name=name, process=process, version="1", started_at=START
        )
    return Orphan(
        task_id=name, attempt=1, type="quick", queue="default", max_retries=None, mark=None,
        node_id=f"node-{name}", node=node, worker_id="w", pid=worker_pid, start_ticks=1,
        claimed_at=START, started_at=START, timeout=60.0, lease_over_s=over_s,
    )  # fmt: skip


def test_a_lease_that_holds_is_respected_however_strange_the_host(desk: Desk) -> None:
    healthy = [orphan("a", ELSEWHERE, -80.0), orphan("b", ELSEWHERE, 0.0)]
    assert desk.sweep(*healthy) == []
    desk.clock.advance(3600)  # no lock, no interval: only the lease counts
    assert desk.sweep(*healthy) == []


def test_what_a_node_runs_that_the_store_does_not_know_is_ended_after_a_lease(desk: Desk) -> None:
    assert desk.sweep(orphan("a", None, None)) == []
    desk.clock.advance(90)
    assert desk.sweep(orphan("a", None, None), orphan("b", None, None)) == []
    desk.clock.advance(1)
    proof = "lease: its node has none for 91.0 s"
    assert desk.sweep(orphan("a", None, None), orphan("b", None, None)) == [("a", proof)]


def test_a_lease_that_is_over_is_the_proof_and_the_task_waits_a_while(desk: Desk) -> None:
    proof = "lease: that of its node ended 1.5 s ago by the store's clock"
    assert desk.sweep(orphan("a", ELSEWHERE, 1.5)) == [("a", proof)]
    [ending] = desk.floor.endings
    assert (ending.outcome.state, ending.outcome.reason) == (State.TIMEOUT, "node_lost")
    assert ending.outcome.effects_unknown
    facts = TaskFacts(retry_count=0, crash_count=0)
    settled = settle(facts, ending.outcome, ending.policy, ending.ended_at, 0.0)
    assert settled.path == (State.RUNNING, State.TIMEOUT, State.PENDING)
    assert settled.run_after == ending.ended_at + timedelta(seconds=30)


def detected(desk: Desk) -> float:
    """Return how many lost attempts were counted."""
    return counted(desk, 'zombies_detected_total{kind="lost"}')


def counted(desk: Desk, series: str) -> float:
    start = f"supervisor_{series} "
    lines = desk.metrics.render()[0].decode().splitlines()
    (line,) = [line for line in lines if line.startswith(start)]
    return float(line.removeprefix(start))


def test_a_node_of_this_host_that_is_gone_needs_no_lease(desk: Desk) -> None:
    proof = "its worker and its node are gone (pid and start time)"
    assert desk.sweep(orphan("a", GONE, -80.0)) == [("a", proof)]
    [ending] = desk.floor.endings
    settled = settle(
        TaskFacts(retry_count=0, crash_count=0), ending.outcome, ending.policy, START, 0.0
    )
    assert settled.run_after == START + timedelta(seconds=10)  # the ordinary delay


def test_what_began_in_an_hour_to_come_ran_no_time_however_late_it_is_ended(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wall clock was set back; a busy host may stop a node between two looks at it."""
    desk.clock.jump(-3600)
    now = desk.clock.now

    def late() -> datetime:
        desk.clock.advance(0.5)
        return now()

    monkeypatch.setattr(desk.clock, "now", late)
    assert desk.sweep(orphan("a", GONE, -80.0)) != []
    [ending] = desk.floor.endings
    assert ending.started_at == ending.ended_at < START


def test_a_lost_task_is_told_once_by_whoever_has_ended_it(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    """Its node's successor on this host and the leader may both be at it, and each twice."""
    lost = orphan("a", GONE, -80.0)
    assert desk.sweep(lost) != []
    desk.written(first=True)
    assert desk.sweep(lost) != []  # what it had read before that was written
    desk.written(first=False)
    told = [record.getMessage() for record in caplog.records]
    assert told == ["task.swept"]
    assert detected(desk) == 1
    assert counted(desk, 'late_results_total{type="quick"}') == 0


def test_a_worker_that_is_still_dying_is_looked_at_again_soon(desk: Desk) -> None:
    ticks = tree.start_ticks(os.getpid()) or 0
    dying = orphan("a", GONE, -80.0, worker_pid=os.getpid())
    dying = Orphan(
        **{name: getattr(dying, name) for name in dying.__slots__} | {"start_ticks": ticks}
    )
    assert desk.sweep(dying) == []
    assert detected(desk) == 0
    desk.clock.advance(0.3)
    desk.mending.mend(desk.clock.mono())
    assert desk.scribe.asked["ReadOrphans"] == 1


def test_healthy_nodes_are_no_zombies_and_not_asked_about_all_the_time(desk: Desk) -> None:
    assert desk.sweep(*(orphan(str(n), ELSEWHERE, -60.0) for n in range(50))) == []
    assert detected(desk) == 0
    for _ in range(100):
        desk.mending.mend(desk.clock.mono())
        desk.clock.advance(0.1)
    assert desk.scribe.asked["ReadOrphans"] == 1


def test_a_fenced_leader_ends_nothing(desk: Desk) -> None:
    desk.floor.fenced = "cut off"
    assert desk.sweep(orphan("a", ELSEWHERE, 100.0)) == []


def test_leaders_are_told_by_their_terms(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="supervisor"):
        for term in (None, 3, 3, None, 5):
            desk.sweep(term=term)
    terms = [record.fields["term"] for record in caplog.records]  # type: ignore[attr-defined]
    assert terms == [3, 5]
    assert "supervisor_sweeper_leading 1.0" in desk.metrics.render()[0].decode()


def test_what_a_dead_node_of_this_host_ran_is_taken_on_whoever_leads(desk: Desk) -> None:
    desk.mending.inherit([orphan("a", GONE, -80.0)])
    desk.floor.types.clear()
    desk.mending.mend(desk.clock.mono())
    assert desk.floor.endings == []  # the rules of its type are not known yet
    desk.floor.types["quick"] = TypeInfo(name="quick", options={})
    desk.mending.mend(desk.clock.mono())
    desk.clock.advance(1)
    desk.mending.mend(desk.clock.mono())
    assert [ending.task_id for ending in desk.floor.endings] == ["a"]
