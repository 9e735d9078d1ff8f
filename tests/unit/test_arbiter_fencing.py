"""A node that cannot renew its lease: nothing it runs outlives the lease, and nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from test_arbiter import House

from supervisor.model.lease import LeasePlan, plan
from supervisor.model.states import State
from supervisor.node import port

DEFAULT = plan(90.0, cancel_grace=10.0, autopsy_budget=10.0)
PENDING, RUNNING, FAILED, SUCCESS = State.PENDING, State.RUNNING, State.FAILED, State.SUCCESS


class Leased(House):
    """A node in memory that holds a lease."""

    def __init__(self, lease: LeasePlan = DEFAULT, **settings: object) -> None:
        super().__init__(None, **settings)
        self.floor = self.arbiter.floor
        self.floor.lease = lease
        self.floor.renewed_at = self.clock.boot()
        self.scribe.ask(port.Revive(lease.lease_s))
        self.scribe.asked.clear()
        self.vouched: list[float] = []
        self.floor.vouch = self.vouched.append
        self.live(1)

    def boot_s(self) -> float:
        """Return the age of the lease."""
        return self.clock.boot() - self.floor.renewed_at

    def running(self) -> int:
        return sum(1 for _ in self.floor.attempts())

    def turn(self) -> None:
        self.arbiter.turn(self.clock.mono())


def events(caplog: pytest.LogCaptureFixture, *names: str) -> Sequence[str]:
    return [record.message for record in caplog.records if record.message in names]


def test_a_lease_is_renewed_every_ninth_of_it_and_vouched_for() -> None:
    house = Leased()
    start = house.clock.boot()
    house.live(60)
    assert house.scribe.asked["Renew"] == 6
    assert house.boot_s() < DEFAULT.renew_every_s + 1
    assert house.vouched[-1] == house.floor.renewed_at + 85
    assert house.floor.renewed_at > start
    assert house.arbiter.health.not_ready == ()


def test_without_a_lease_nothing_is_renewed() -> None:
    house = House()
    house.live(200)
    assert house.scribe.asked["Renew"] == house.scribe.asked["ReadOwn"] == 0
    assert house.arbiter.floor.fenced == ""


def test_a_polite_body_is_told_and_runs_again_without_a_retry(
    caplog: pytest.LogCaptureFixture,
) -> None:
    house = Leased()
    task = house.run("polite")
    house.live(1)
    house.scribe.go_away()
    with caplog.at_level("INFO", logger="supervisor"):
        house.live(62)
        assert house.floor.fenced == ""  # 65 s after the last good renewal began
        assert house.running() == 1
        house.live(3)
        assert house.floor.fenced.startswith("the lease was not renewed for 65.")
        assert house.running() == 0
        assert house.arbiter.health.not_ready[:2] == (
            "store away: cut off",
            f"fenced: {house.floor.fenced}",
        )
        house.live(5)
        assert house.scribe.tasks[task].state is RUNNING  # nobody could be told yet
        house.scribe.come_back()
        house.live(1)
    assert house.moves(task)[:3] == [
        (PENDING, RUNNING, "claimed"),
        (RUNNING, FAILED, "preempted"),
        (FAILED, PENDING, "requeued"),
    ]
    assert house.scribe.tasks[task].claim.retry_count == 0
    assert house.floor.fenced == ""
    assert house.running() == 1  # and it runs again
    assert events(caplog, "node.fenced", "node.unfenced") == ["node.fenced", "node.unfenced"]
    assert [note.partition(":")[0] for note in house.scribe.notes] == [
        "node_fenced",
        "node_unfenced",
    ]
    assert any(note.startswith("fenced: told to leave") for note in house.scribe.tasks[task].notes)


def test_a_hopeless_body_is_killed_with_evidence_in_time() -> None:
    house = Leased()
    task = house.run("hopeless")
    house.live(1)
    house.scribe.go_away()
    house.live(64)
    assert house.floor.fenced
    house.live(9)
    assert house.kills() == 0
    house.live(2)
    assert house.kills() == 1
    assert ("capture", "shutdown") in house.pool.calls
    assert house.boot_s() < 85
    assert house.running() == 0
    house.scribe.come_back()
    house.live(1)
    [ending] = [one for one in house.scribe.endings if one.task_id == task]
    assert (ending.outcome.reason, ending.outcome.proof) == ("preempted", "exited")
    assert ending.outcome.effects_unknown
    assert ending.outcome.detail.startswith("the lease was not renewed for 65.0 of its 90 s")


def test_evidence_that_takes_too_long_is_not_waited_for() -> None:
    house = Leased(plan(26.5, cancel_grace=10.0, autopsy_budget=10.0))
    house.pool.capture_s = 1000.0
    house.run("hopeless")
    house.live(1)
    house.scribe.go_away()
    house.live(26.5 - 1)
    assert house.kills() == 1
    assert house.running() == 0


def test_no_births_and_no_claims_while_fenced() -> None:
    house = Leased(workers=1)
    house.run("polite")
    house.live(1)
    house.scribe.go_away()
    house.live(70)
    assert house.floor.fenced
    assert len(house.floor.slots) == 0  # the one that was interrupted left, no other was born
    waiting = house.run("quick")
    house.live(60)
    assert house.scribe.tasks[waiting].state is PENDING
    house.scribe.come_back()
    house.live(2)
    assert len(house.floor.slots) == 1
    assert house.running() == 1


def test_the_time_ends_at_the_last_good_renewal_not_at_the_first_bad_one() -> None:
    house = Leased()
    house.run("polite")
    house.live(8)  # shortly before the next
    assert house.scribe.asked["Renew"] == 0
    house.scribe.go_away()
    house.live(55.5)
    assert not house.floor.fenced
    house.live(1)
    assert house.floor.fenced


@pytest.mark.parametrize("sleeps", [True, False], ids=["suspended", "stopped"])
def test_a_node_that_stood_still_kills_before_anything_else(sleeps: bool) -> None:
    house = Leased()
    task = house.run("polite")
    house.live(1)
    asked = house.scribe.asked.copy()
    if sleeps:
        house.clock.suspend(100)
    else:
        house.clock.advance(100)
    house.scribe.sweep(task)
    calls = len(house.pool.calls)
    house.turn()
    assert house.pool.calls[calls] == ("kill", house.scribe.tasks[task].claim.worker_id)
    assert house.running() == 0
    assert house.scribe.asked["ClaimFor"] == asked["ClaimFor"]
    house.live(1)
    assert house.scribe.refused == 1  # the sweeper was faster
    assert house.floor.fenced == ""
    assert house.scribe.tasks[task].state is State.TIMEOUT


def test_a_result_of_the_dark_counts_if_nobody_was_faster() -> None:
    house = Leased()
    task = house.run("late")
    house.live(1)
    house.scribe.go_away()
    house.live(150)
    assert house.scribe.tasks[task].state is RUNNING
    house.scribe.come_back()
    house.live(1)
    assert house.scribe.tasks[task].state is SUCCESS
    assert house.floor.fenced == ""


def test_a_lease_that_was_lost_kills_at_once() -> None:
    house = Leased()
    house.run("polite")
    house.live(1)
    house.scribe._replies.append(port.LeaseLost())
    house.turn()
    house.turn()
    assert house.kills() == 1
    assert house.floor.fenced == "the lease was over before it could be renewed"
    house.live(1)
    assert house.scribe.asked["Revive"] == 1
    assert house.floor.fenced == ""
    assert house.running() == 1


def test_what_is_claimed_while_it_is_fenced_is_given_back() -> None:
    house = Leased()
    house.scribe.go_away()
    house.live(70)
    task = house.run("quick")
    house.scribe.away = False  # the claim went through, its answer comes now
    worker = next(iter(house.floor.slots.values()))
    owner = port.Owner(worker.worker_id, worker.pid, worker.start_ticks)
    house.scribe.ask(port.ClaimFor([owner], ["quick"], None))
    house.scribe.away = True
    house.live(1)
    house.scribe.come_back()
    house.turn()
    assert house.moves(task)[:3] == [
        (PENDING, RUNNING, "claimed"),
        (RUNNING, FAILED, "never_started"),
        (FAILED, PENDING, "requeued"),
    ]


def test_a_short_silence_changes_nothing() -> None:
    house = Leased()
    house.run("polite")
    house.live(1)
    house.scribe.go_away()
    house.live(50)
    house.scribe.come_back()
    house.live(1)
    assert house.running() == 1
    assert house.floor.fenced == ""
    assert house.boot_s() < 2


def test_a_lost_answer_to_a_claim_is_found_and_the_task_given_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    house = Leased()
    runs = house.run("polite")
    house.live(1)
    task = house.run("quick")
    house.scribe.ask(port.ClaimFor([port.Owner("nobody", 1, 1)], ["quick"], None))
    house.scribe._replies.clear()
    with caplog.at_level("INFO", logger="supervisor"):
        house.live(16)
    assert house.moves(task) == [
        (PENDING, RUNNING, "claimed"),
        (RUNNING, FAILED, "never_started"),
        (FAILED, PENDING, "requeued"),
        (PENDING, RUNNING, "claimed"),
        (RUNNING, SUCCESS, "returned"),
    ]
    assert house.scribe.tasks[runs].state is RUNNING
    assert events(caplog, "claim.lost") == ["claim.lost"]
    assert house.scribe.refused == 0


def test_a_clock_that_differs_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    house = Leased()
    with caplog.at_level("INFO", logger="supervisor"):
        for skew_s in (0.2, 4.0, 4.1, 0.1, -3.0):
            house.scribe._replies.append(port.LeaseRenewed(house.clock.boot(), skew_s))
            house.live(1)
    assert events(caplog, "clock.skewed") == ["clock.skewed"] * 2


def test_a_stop_while_it_is_fenced_waits_for_no_lease() -> None:
    house = Leased()
    house.run("polite")
    house.live(1)
    house.scribe.go_away()
    house.live(70)
    house.pool.signal("SIGTERM")
    house.live(5)
    assert house.arbiter.done
