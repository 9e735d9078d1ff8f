"""What is counted of the store: what lives now, what is lost, and the endings of ten minutes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from ledger_scene import POLICY, START, Scene

from supervisor.model import outcome as ended
from supervisor.model.outcome import Outcome
from supervisor.store import numbers
from supervisor.store.numbers import Ended, Level, Live, Numbers

_NONE = Ended(type=None, success=0, failed=0, timeout=0, canceled=0, requeued=0, p99_s=None)


def run(scene: Scene, how: Outcome, seconds: float | None, kind: str = "greet") -> None:
    """Run a task of this type to this end; it began if it took a time."""
    claim = scene.running(type=kind)
    began = None
    if seconds is not None:
        began = scene.now
        scene.pass_time(seconds)
    scene.finish(claim, how, policy=replace(POLICY, max_retries=0), started_at=began)


def test_what_lives_is_told_by_queue_and_type(scene: Scene) -> None:
    for queue, kind, later_s in (
        ("mail", "greet", 0), ("mail", "greet", 60), ("mail", "part", 60),
        ("other", "greet", 0), ("other", "greet", 0),
    ):  # fmt: skip
        scene.submit(queue=queue, type=kind, run_after=START + timedelta(seconds=later_s))
        scene.pass_time(0.001)
    scene.claim(queues=["other"])
    with scene.ledger.transaction() as tx:
        tx.pause("mail", 3, by="anna", reason="why", now=scene.now)
    scene.pass_time(10)
    live = Numbers(scene.store).live(scene.now)
    pending = 4
    assert replace(live, outbox=pending) == Live(
        levels=(
            Level(
                queue="mail", type="greet", in_queue=1, scheduled=1, running=0, oldest_due=START
            ),
            Level(
                queue="mail", type="part", in_queue=0, scheduled=1, running=0, oldest_due=None
            ),
            Level(
                queue="other", type="greet", in_queue=1, scheduled=0, running=1, oldest_due=START
            ),
        ),
        paused=frozenset({"mail"}),
        outbox=pending,
    )  # fmt: skip
    assert pending <= live.outbox <= 5
    with scene.ledger.transaction() as tx:
        tx.publish(100, scene.now + timedelta(seconds=1))
    assert Numbers(scene.store).live(scene.now).outbox == 0


def test_endings_of_the_window_by_type_and_together(scene: Scene) -> None:
    run(scene, ended.returned("1"), 1.0)  # too long ago at the end
    scene.pass_time(590)
    for seconds in (1.0, 2.0, 3.0):
        run(scene, ended.returned("1"), seconds)
    run(scene, ended.raised("ValueError", "no", "tb"), 4.0)
    run(scene, ended.soft_timed_out(), 0.5, kind="part")
    run(scene, ended.canceled(), 0.25, kind="part")
    run(scene, ended.canceled(), None, kind="part")
    claim = scene.running(type="part")
    scene.finish(claim, ended.never_started("its worker was gone"))
    found = Numbers(scene.store).ended(scene.now)
    assert found == (
        Ended(type=None, success=3, failed=1, timeout=1, canceled=2, requeued=1, p99_s=4.0),
        Ended(type="greet", success=3, failed=1, timeout=0, canceled=0, requeued=0, p99_s=4.0),
        Ended(type="part", success=0, failed=0, timeout=1, canceled=2, requeued=1, p99_s=0.5),
    )
    _, greet, part = found
    assert (greet.failed_rate, greet.canceled_rate) == (0.25, 0.0)
    assert (part.failed_rate, part.canceled_rate) == (1.0, 2 / 3)


def test_an_attempt_that_is_tried_again_has_ended_too(scene: Scene) -> None:
    scene.finish(scene.running(), ended.raised("ValueError", "no", "tb"))
    scene.pass_time(11)
    (second,) = scene.claim()
    scene.finish(second, ended.returned("1"))
    [overall, _] = Numbers(scene.store).ended(scene.now) or ()
    assert (overall.success, overall.failed, overall.failed_rate) == (1, 1, 0.5)


def test_nothing_ended_is_no_rate(scene: Scene) -> None:
    assert Numbers(scene.store).ended(scene.now) == (_NONE,)
    assert (_NONE.failed_rate, _NONE.canceled_rate, _NONE.p99_s) == (None, None, None)


def test_the_p99_is_a_run_time_that_99_percent_did_not_exceed(scene: Scene) -> None:
    for hundredths in range(200):
        run(scene, ended.returned("1"), hundredths / 100)
        scene.now = START + timedelta(seconds=300)
    [overall, greet] = Numbers(scene.store).ended(scene.now + timedelta(seconds=10)) or ()
    assert overall.p99_s == greet.p99_s == pytest.approx(1.97)  # the 198th of 200


def test_too_many_to_read_is_no_answer(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    run(scene, ended.returned("1"), 1.0)
    monkeypatch.setattr(numbers, "ROWS_MOST", 2)
    assert Numbers(scene.store).ended(scene.now) is None


def test_the_window_is_found_between_older_rows(scene: Scene) -> None:
    for _ in range(40):
        run(scene, ended.returned("1"), 0.5)
        scene.pass_time(120)
    [overall, _] = Numbers(scene.store).ended(scene.now) or ()
    assert overall.success == 4  # at 120, 240.5, 361 and 481.5 s ago
    [overall, _] = Numbers(scene.store).ended(scene.now, window_s=4000) or ()
    assert overall.success == 33


def test_attempts_of_nodes_that_are_gone_are_lost(scene: Scene) -> None:
    lost = Numbers(scene.store).lost
    scene.register("node_a")
    scene.running()
    assert lost(scene.now, dead=(), node_id="node_a") == 0
    assert lost(scene.now, dead=(), node_id="node_b") == (0 if scene.store.is_shared else 1)
    assert lost(scene.now, dead=["node_a", "node_x"]) == 1
    with scene.ledger.transaction() as tx:
        tx.end_node("node_a", scene.now, "over")
    assert lost(scene.now, dead=(), node_id="node_b") == lost(scene.now, dead=()) == 1
