"""Evidence on suspicion: not too often of one attempt, nor of all of a node at once."""

from __future__ import annotations

import pytest
from test_arbiter import House

from supervisor.node import port
from supervisor.node.arbiter import Pace
from supervisor.node.diagnosing import MOST_PER_MINUTE
from supervisor.node.listening import Listening

SLOW = Pace(idle_s=5, poll_s=5, busy_s=1)


def skipped(house: House) -> list[str]:
    """Return what was noted of attempts that were not examined."""
    notes = [note for task in house.scribe.tasks.values() for note in task.notes]
    return [note for note in notes if note.startswith("autopsy: not examined: ")]


@pytest.mark.parametrize(
    ("interval", "taken"),
    [(120, ["stalled", "cpu_spin"]), (1000, ["stalled"]), (0, ["stalled", "cpu_spin"])],
)
def test_one_attempt_is_left_alone_for_the_interval(interval: int, taken: list[str]) -> None:
    house = House(SLOW, diagnose_interval=interval)
    task = house.run("spins_alone")  # stalled after 300 s, a spin after 600 s
    house.live(700)
    assert house.pool.calls == [("capture", code) for code in taken]
    told = skipped(house)
    if interval == 1000:
        (text,) = told
        assert text.startswith("autopsy: not examined: examined 30")
        assert text.endswith(
            f" s ago (diagnose_interval 1000 s); `supervisor autopsy capture {task}` does it"
        )
    else:
        assert told == []


def test_a_node_full_of_suspects_examines_some_and_tells_of_the_others() -> None:
    suspects = MOST_PER_MINUTE + 10
    house = House(SLOW, workers=suspects)
    for _ in range(suspects):
        house.run("stalls")
    house.live(400)
    assert house.pool.calls == [("capture", "stalled")] * MOST_PER_MINUTE
    why = (
        f"autopsy: not examined: this node examined {MOST_PER_MINUTE} attempts in the last minute; "
    )
    assert [text.startswith(why) for text in skipped(house)] == [True] * 10
    figures = house.arbiter.floor.metrics.render()[0].decode()
    assert 'supervisor_autopsies_total{status="busy"} 10.0' in figures


def test_the_kill_waits_for_its_own_evidence_not_for_that_of_a_suspicion() -> None:
    """The examination of a stall ends after the limit is reached: that is not yet the evidence."""
    house = House(workers=1, timeout=20, progress_timeout=18, autopsy_budget=10)
    house.pool.capture_s = 5.0
    house.run("fat")  # hears nothing and says nothing
    while house.kills() == 0:
        house.live(0.1)
        assert house.clock.mono() < 1040
    calls = [call for call in house.pool.calls if call[0] in ("capture", "kill")]
    assert [code for call, code in calls if call == "capture"] == ["stalled", "timeout"]
    taken = [one.facts.values["verdict"] for one in house.scribe.autopsies]
    assert taken == ["stalled", "timeout"]  # the kill came after the second, not the first


def test_one_that_is_examined_by_somebody_else_is_told_of_and_has_no_record() -> None:
    house = House(SLOW, workers=1)
    task = house.run("report")
    house.live(5)
    (slot,) = house.arbiter.floor.slots.values()
    facts = port.Facts({"task_id": task, "attempt": 1, "name": f"{task}-1-stalled"}, True)
    why = "process 7 is already being examined by pid 8"
    captured = port.Captured(slot.worker_id, facts, "", "busy", [], 0.0, 0, why)
    Listening(house.arbiter.floor).captured(slot, captured)
    assert skipped(house) == [
        f"autopsy: not examined: {why}; `supervisor autopsy capture {task}` does it"
    ]
    assert house.scribe.autopsies == []
