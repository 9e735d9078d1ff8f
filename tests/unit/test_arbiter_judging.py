"""What the loop makes of a verdict: told once, counted while it is true."""

from __future__ import annotations

from test_arbiter import House

from supervisor.model.states import State
from supervisor.node.arbiter import Pace


def zombies(house: House, kind: str) -> int:
    return house.arbiter.board().zombies[kind]


def test_one_that_goes_on_is_no_zombie_any_more() -> None:
    house = House(Pace(idle_s=5, poll_s=5, busy_s=1))
    task = house.run("stops_progress")  # a step every 400 s; stalled is 300 s without
    house.live(350)
    assert zombies(house, "stalled") == 1
    house.live(80)
    assert zombies(house, "stalled") == 0
    house.live(350)
    assert zombies(house, "stalled") == 1
    assert house.scribe.tasks[task].state is State.RUNNING
    assert house.pool.calls == [("capture", "stalled")]  # evidence is taken once


def test_a_spin_without_progress_is_told_as_both() -> None:
    house = House(Pace(idle_s=5, poll_s=5, busy_s=1))
    task = house.run("spins_alone")
    house.live(700)
    assert house.pool.calls == [("capture", "stalled"), ("capture", "cpu_spin")]
    assert house.scribe.tasks[task].state is State.RUNNING


def test_memory_in_use_and_what_may_be_used_are_shown_by_type() -> None:
    house = House(Pace(idle_s=5, poll_s=5, busy_s=1), memory_limit_bytes=2**30)
    house.run("fat")
    house.live(30)
    assert house.arbiter.board().running["fat"].rss_bytes == 900 * 2**20
    text = house.arbiter.floor.metrics.render()[0].decode()
    for kind in ("fat", "quick"):
        assert f'supervisor_task_memory_limit_bytes{{type="{kind}"}} 1.073741824e+09' in text
