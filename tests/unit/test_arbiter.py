"""The arbiter, driven by hand: real loop, scripted workers, a scribe in memory, a manual clock."""

from __future__ import annotations

import math
import time
from collections import Counter
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from machine import slowness
from prometheus_client.parser import text_string_to_metric_families

from supervisor.model.health import Host
from supervisor.model.record import ProcessIdentity
from supervisor.model.spec import TaskSpec
from supervisor.model.states import State
from supervisor.node.arbiter import Arbiter, Pace
from supervisor.node.floor import Floor, Slot
from supervisor.settings import load_settings
from supervisor.telemetry.metrics import Metrics
from supervisor.testing import ManualClock, MemoryScribe, Script, ScriptedPool
from supervisor.worker import wire

SCRIPTS = {
    "quick": Script(runs_s=0.0),
    "report": Script(runs_s=600.0, progress_every_s=30.0),
    "crawl": Script(runs_s=3000.0, progress_every_s=290.0),
    "stalls": Script(runs_s=math.inf, progress_every_s=None),
    "stops_progress": Script(runs_s=math.inf, progress_every_s=400.0),
    "silent": Script(runs_s=math.inf, beats=False, hears=False),
    "stopped": Script(runs_s=math.inf, beats=False, hears=False, proc_state="T"),
    "hopeless": Script(runs_s=math.inf, progress_every_s=1.0, hears=False),
    "late": Script(runs_s=11.0, hears=False),
    "polite": Script(runs_s=math.inf, progress_every_s=1.0),
    "raises": Script(runs_s=1.0, raises=True),
    "crashes": Script(runs_s=1.0, dies=True),
    "spins": Script(runs_s=2000.0, progress_every_s=60.0, spins=True),
    "spins_alone": Script(runs_s=math.inf, progress_every_s=None, spins=True),
    "fat": Script(runs_s=math.inf, rss_bytes=900 * 2**20, hears=False),
}


class House:
    """A node in memory."""

    def __init__(self, pace: Pace | None = None, **settings: object) -> None:
        self.clock = ManualClock()
        self.pool = ScriptedPool(self.clock, SCRIPTS)
        self.scribe = MemoryScribe(self.clock)
        flags = {"timeout": 7200, "workers": 2, **settings}
        loaded = load_settings(flags, {}, None)
        floor = Floor("node-1", loaded, self.clock, self.pool, self.scribe, Metrics(version="t"))
        own = ProcessIdentity(pid=1, start_ticks=1, boot_id="boot", pid_ns=1)
        self.reloads = 0
        self.arbiter = Arbiter(floor, own, "app:app", self._reload, pace)
        self.arbiter.staffing.boot()

    def _reload(self) -> None:
        self.reloads += 1

    def live(self, seconds: float) -> int:
        """Let time pass as the real loop would: turn, wait as long as the turn said, turn."""
        end = self.clock.mono() + seconds
        turns = 0
        while self.clock.mono() < end and not self.arbiter.done:
            pause = self.arbiter.turn(self.clock.mono())
            self.clock.advance(max(pause, 0.001))
            turns += 1
        return turns

    def run(self, kind: str, **fields: object) -> str:
        return self.scribe.submit([TaskSpec(type=kind, **fields)])[0]  # type: ignore[arg-type]

    def moves(self, task_id: str) -> list[tuple[State, State, str]]:
        return self.scribe.tasks[task_id].moves

    def stops(self) -> dict[str, float]:
        """Return how attempts that were told to stop have ended."""
        return {labels["phase"]: value for labels, value in self._told("stops_total")}

    def gauge(self, name: str) -> float:
        """Return what a metric without labels of its own says."""
        ((_, value),) = self._told(name)
        return value

    def _told(self, name: str) -> list[tuple[dict[str, str], float]]:
        text = self.arbiter.floor.metrics.render()[0].decode()
        return [
            (sample.labels, sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == f"supervisor_{name}"
        ]

    def kills(self) -> int:
        return sum(call == "kill" for call, _ in self.pool.calls)


CLAIMED = (State.PENDING, State.RUNNING, "claimed")


DAY_S = 86_400


def _day() -> House:
    """A node's house with the tasks of a day ahead of it; two of them fall silent."""
    house = House(Pace(idle_s=20, poll_s=20, busy_s=5), workers=4, max_retries=1)
    start = house.clock.now()
    for hour in range(23):  # the last hour lets what began before it end
        at = start + timedelta(hours=hour)
        kinds = ["quick"] * 20 + ["report"] * 4 + ["crawl", "raises", "spins"]
        house.scribe.submit(TaskSpec(type=kind, run_after=at) for kind in kinds)
    for hour in (3, 9):
        house.run("silent", run_after=start + timedelta(hours=hour))
    return house


def test_a_day_of_operation_ends_every_task_as_it_should() -> None:
    house = _day()
    turns = house.live(DAY_S)
    assert turns >= DAY_S / 20
    assert house.scribe.states() == Counter(
        {State.SUCCESS: 23 * 26, State.FAILED: 23, State.TIMEOUT: 2}
    )
    assert house.scribe.refused == 0
    silent = [name for name, task in house.scribe.tasks.items() if task.claim.type == "silent"]
    assert [house.moves(task)[1][2] for task in silent] == ["heartbeat_lost", "heartbeat_lost"]
    assert house.kills() == 2 * len(silent)  # each was run twice, and killed twice


@pytest.mark.alone
def test_a_day_of_operation_takes_less_than_a_second() -> None:
    costs = []
    for _ in range(3):  # what else the machine did only ever adds
        house, slow = _day(), slowness()
        began = time.process_time()
        house.live(DAY_S)
        costs.append((time.process_time() - began) / slow)
    assert min(costs) < 1.0, f"CPU seconds of a day: {costs}"


def test_nothing_of_a_task_is_kept_after_its_end() -> None:
    house = House()
    for _ in range(50):
        house.run("quick")
    house.live(5)
    floor = house.arbiter.floor
    assert house.scribe.states() == Counter({State.SUCCESS: 50})
    assert [len(slot.attempts) for slot in floor.slots.values()] == [0, 0]
    assert floor.endings == []
    assert all(slot.promised <= 1 for slot in floor.slots.values())  # the claim just asked for


def test_a_hard_timeout_takes_evidence_before_it_kills() -> None:
    house = House(max_retries=0)
    task = house.run("hopeless", timeout=10.0)
    house.live(12)
    assert house.moves(task) == [CLAIMED, (State.RUNNING, State.TIMEOUT, "timeout")]
    calls = [call for call, _ in house.pool.calls]
    assert calls == ["interrupt", "capture", "kill"]
    assert [captured.facts.values["verdict"] for captured in house.scribe.autopsies] == ["timeout"]


def test_a_result_that_comes_after_the_hard_limit_is_discarded_and_shown() -> None:
    house = House(max_retries=0)
    house.pool.capture_s = 3.0  # the body returns while the evidence is taken
    task = house.run("late", timeout=10.0)
    house.live(14)
    assert house.moves(task) == [CLAIMED, (State.RUNNING, State.TIMEOUT, "timeout")]
    ending = house.scribe.endings[-1].outcome
    assert ending.error == "returned 1.00 s after its time limit: the late result was discarded"
    assert (ending.detail, ending.effects_unknown) == ("late result: null", False)


def test_a_soft_timeout_that_is_heard_needs_no_kill() -> None:
    house = House(max_retries=0)
    task = house.run("polite", timeout=10.0, soft_timeout=5.0)
    house.live(8)
    assert house.moves(task) == [CLAIMED, (State.RUNNING, State.TIMEOUT, "soft_timeout")]
    assert house.pool.calls == [("interrupt", "soft_timeout")]
    assert house.stops() == {"asked": 0, "interrupted": 1, "killed": 0}


def test_one_that_ends_by_itself_before_it_sees_its_soft_limit_was_only_asked() -> None:
    house = House(max_retries=0)
    house.run("late", timeout=20.0, soft_timeout=5.0)
    house.live(13)
    assert house.stops() == {"asked": 1, "interrupted": 0, "killed": 0}


@pytest.mark.parametrize(
    ("kind", "calls"),
    [
        ("polite", ["interrupt"]),
        ("hopeless", ["interrupt", "capture", "kill"]),
    ],
)
def test_a_cancel_ends_canceled_and_is_never_retried(kind: str, calls: list[str]) -> None:
    house = House(cancel_grace=5.0)
    task = house.run(kind)
    house.live(3)
    house.scribe.cancel(task, by="ann", reason="changed my mind")
    house.live(8)
    assert house.moves(task) == [CLAIMED, (State.RUNNING, State.CANCELED, "canceled")]
    assert [call for call, _ in house.pool.calls] == calls


def test_a_body_that_sees_nothing_is_knocked_at_until_it_is_killed() -> None:
    house = House(cancel_grace=5.0)
    task = house.run("hopeless")
    house.live(3)
    house.scribe.cancel(task, by="ann", reason="changed my mind")
    house.live(8)
    _, *others = house.pool.knocks
    gaps = [round(after - before) for before, after in pairwise(house.pool.knocks)]
    assert gaps == [1] * len(others)
    assert len(others) == 4  # at 0.1, 1.1 … 4.1 s of the grace of 5 s


def test_a_body_that_hears_is_not_knocked_at() -> None:
    house = House(cancel_grace=5.0)
    task = house.run("polite")
    house.live(3)
    house.scribe.cancel(task, by="ann", reason="changed my mind")
    house.live(8)
    assert house.pool.knocks == []


def test_what_goes_wrong_with_one_event_takes_no_other_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = House()
    tasks = [house.run("quick") for _ in range(2)]
    listening, broken = house.arbiter._listening, []
    said = listening.said

    def fail_once(slot: Any, message: Any, now: float) -> None:
        if isinstance(message, wire.Finished) and not broken:
            broken.append(message)
            raise OSError("no more processes")
        said(slot, message, now)

    monkeypatch.setattr(listening, "said", fail_once)
    house.live(5)
    assert len(broken) == 1
    states = sorted(house.scribe.tasks[task].state for task in tasks)
    assert states == [State.RUNNING, State.SUCCESS]  # the other one's report was heard


def test_older_workers_are_claimed_for_what_both_generations_know() -> None:
    floor = House().arbiter.floor
    old, new = Slot("w1", 1, "initial", 0.0), Slot("w2", 2, "reload", 0.0)
    floor.learn(1, [wire.TypeInfo("gone", {}), wire.TypeInfo("stays", {})])
    floor.slots["w1"] = old
    floor.learn(2, [wire.TypeInfo("stays", {}), wire.TypeInfo("comes", {})])
    assert floor.claimable([old, new]) == ("stays",)
    assert floor.claimable([new]) == ("stays", "comes")
    del floor.slots["w1"]
    floor.learn(3, [wire.TypeInfo("comes", {})])
    assert list(floor.known) == [3]


def test_the_event_of_a_verified_cancel_tells_how_long_it_took(
    caplog: pytest.LogCaptureFixture,
) -> None:
    house = House(cancel_grace=5.0)
    task = house.run("hopeless")
    house.live(3)
    house.scribe.cancel(task, by="ann", reason="changed my mind")
    with caplog.at_level("INFO", logger="supervisor"):
        house.live(8)
    told = [r.fields for r in caplog.records if r.message == "cancel.verified"]  # type: ignore[attr-defined]
    assert [(fields["task_id"], fields["attempt"]) for fields in told] == [(task, 1)]
    assert 5.0 <= told[0]["latency_s"] < 6.0  # the grace, the capture and a turn


def test_a_slow_task_that_advances_is_left_alone_for_hours() -> None:
    house = House(Pace(idle_s=5, poll_s=5, busy_s=1))
    task = house.run("crawl")
    house.live(3100)
    assert house.moves(task) == [CLAIMED, (State.RUNNING, State.SUCCESS, "returned")]
    assert house.pool.calls == []


def test_a_task_without_progress_is_examined_and_lives() -> None:
    house = House(Pace(idle_s=5, poll_s=5, busy_s=1))
    task = house.run("stalls")
    house.live(1000)
    assert house.scribe.tasks[task].state is State.RUNNING
    assert house.pool.calls == [("capture", "stalled")]


def test_a_type_that_set_a_progress_limit_is_killed_for_it() -> None:
    house = House(Pace(idle_s=5, poll_s=5, busy_s=1), max_retries=0)
    settings = house.arbiter.floor.settings
    tables = {"stops_progress": {"progress_timeout": 120.0}}
    object.__setattr__(settings, "type_tables", tables)
    task = house.run("stops_progress")
    house.live(700)
    assert house.moves(task) == [CLAIMED, (State.RUNNING, State.TIMEOUT, "stalled")]


@pytest.mark.parametrize(
    ("kind", "verdict"), [("silent", "heartbeat_lost"), ("stopped", "stopped")]
)
def test_a_lost_heartbeat_is_a_kill_after_three_misses(kind: str, verdict: str) -> None:
    house = House(Pace(idle_s=5, poll_s=5, busy_s=1), max_retries=0)
    task = house.run(kind)
    house.live(88)
    assert house.scribe.tasks[task].state is State.RUNNING
    house.live(20)
    assert house.moves(task) == [CLAIMED, (State.RUNNING, State.TIMEOUT, "heartbeat_lost")]
    assert house.pool.calls[0] == ("capture", verdict)


def test_a_starved_host_holds_inferred_verdicts_but_not_the_time_limit() -> None:
    house = House(Pace(idle_s=5, poll_s=5, busy_s=1), max_retries=0)
    house.pool.host_signs = Host(cpu_pressure=97.0)
    task = house.run("silent", timeout=600.0)
    house.live(500)
    assert house.scribe.tasks[task].state is State.RUNNING
    notes = house.scribe.tasks[task].notes
    assert [note for note in notes if note.startswith("verdict: starved_host")] != []
    house.live(120)
    assert house.moves(task) == [CLAIMED, (State.RUNNING, State.TIMEOUT, "timeout")]


def test_a_suspended_node_kills_nobody_when_it_wakes() -> None:
    house = House(max_retries=0)
    tasks = [house.run("polite", timeout=60.0), house.run("silent", timeout=6000.0)]
    house.live(20)
    house.clock.advance(3600)  # the whole host was suspended
    house.live(30)
    assert [house.scribe.tasks[task].state for task in tasks] == [State.RUNNING] * 2
    assert house.pool.calls == []
    notes = [n for n in house.scribe.tasks[tasks[0]].notes if n.startswith("deadlines_moved")]
    assert len(notes) == 1


def test_a_gap_in_the_middle_of_a_turn_is_forgiven_as_well() -> None:
    house = House(max_retries=0)
    task = house.run("late", timeout=10.0)  # returns after 11 s
    house.live(3)
    heard = house.pool.events

    def stopped_while_listening() -> list[Any]:
        house.pool.events = heard  # type: ignore[method-assign]
        events = heard()
        house.clock.advance(30)
        return events

    house.pool.events = stopped_while_listening  # type: ignore[method-assign]
    house.live(35)
    assert house.moves(task) == [CLAIMED, (State.RUNNING, State.SUCCESS, "returned")]
    assert house.kills() == 0


@pytest.mark.parametrize("seconds", [3600, -3600])
def test_a_wall_clock_jump_kills_nobody(seconds: float) -> None:
    house = House()
    task = house.run("polite", timeout=60.0)
    house.live(20)
    house.clock.jump(seconds)
    house.live(20)
    assert house.scribe.tasks[task].state is State.RUNNING
    assert house.pool.calls == []


def test_memory_over_the_limit_is_a_kill() -> None:
    house = House(memory_limit_bytes=500 * 2**20, max_retries=0)
    task = house.run("fat")
    house.live(5)
    assert house.moves(task) == [CLAIMED, (State.RUNNING, State.FAILED, "memory")]


def test_a_spinning_task_is_examined_and_lives() -> None:
    house = House(Pace(idle_s=5, poll_s=5, busy_s=1))
    task = house.run("spins")
    house.live(2100)
    assert house.moves(task) == [CLAIMED, (State.RUNNING, State.SUCCESS, "returned")]
    assert house.pool.calls == [("capture", "cpu_spin")]


def test_a_task_that_kills_its_worker_is_quarantined() -> None:
    house = House(retry_base=1.0, max_retries=50)
    task = house.run("crashes")
    house.live(60)
    endings = [move for move in house.moves(task) if move[0] is State.RUNNING]
    assert endings == [(State.RUNNING, State.FAILED, "native_crash")] * 3
    assert house.scribe.tasks[task].state is State.FAILED


def test_a_stop_lets_the_running_finish_and_claims_no_more() -> None:
    house = House(Pace(idle_s=5, poll_s=5, busy_s=1), drain_grace=700)
    running = house.run("report")
    house.live(10)
    house.pool.signal("SIGTERM")
    house.live(1)
    later = house.run("quick")
    house.live(900)
    assert house.arbiter.done
    assert house.scribe.tasks[running].state is State.SUCCESS
    assert house.scribe.tasks[later].state is State.PENDING


def test_a_stop_after_its_grace_asks_for_a_checkpoint_and_requeues_without_a_retry() -> None:
    house = House(drain_grace=5)
    task = house.run("polite")
    house.live(3)
    house.pool.signal("SIGTERM")
    house.live(20)
    assert house.arbiter.done
    assert house.moves(task) == [
        CLAIMED,
        (State.RUNNING, State.FAILED, "shutdown"),
        (State.FAILED, State.PENDING, "requeued"),
    ]
    assert house.scribe.tasks[task].claim.retry_count == 0


def test_a_third_signal_goes_straight_to_evidence_and_kill() -> None:
    house = House()
    task = house.run("hopeless")
    house.live(3)
    for _ in range(3):
        house.pool.signal("SIGTERM")
    house.live(3)
    assert house.arbiter.done
    assert house.moves(task)[1] == (State.RUNNING, State.FAILED, "shutdown")
    assert [call for call, _ in house.pool.calls][-2:] == ["capture", "kill"]


def test_a_cancel_is_heard_while_the_node_drains() -> None:
    house = House(drain_grace=600)
    task = house.run("polite")
    house.live(3)
    house.pool.signal("SIGTERM")
    house.live(1)
    house.scribe.cancel(task, by="ann", reason="no longer needed")
    house.live(5)
    assert house.arbiter.done
    assert house.moves(task)[1] == (State.RUNNING, State.CANCELED, "canceled")


def test_a_reload_signal_reaches_the_reloader() -> None:
    house = House()
    house.live(1)
    house.pool.signal("SIGHUP")
    house.live(1)
    assert house.reloads == 1
