"""What the ledger keeps of traces: where a task was submitted, and the span of each attempt."""

from __future__ import annotations

from ledger_scene import NODE, START, Scene

from supervisor.model.outcome import raised
from supervisor.model.record import Claim, Owner
from supervisor.model.spec import TaskSpec

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-1af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01"
OWNER = Owner("worker_1", 101, 5000)


def _claimed(scene: Scene, seen: list[tuple[str, int, str, str | None]]) -> Claim:
    def trace(task_id: str, attempt: int, type_: str, parent: str | None) -> str:
        seen.append((task_id, attempt, type_, parent))
        return f"{PARENT[:36]}{attempt:016x}-01"

    with scene.ledger.transaction() as tx:
        (claim,) = tx.claim(
            [OWNER], node_id=NODE, queues=None, types={"greet"}, trace=trace, now=scene.now
        )
    return claim


def test_a_task_keeps_where_it_was_submitted_and_each_attempt_its_span(scene: Scene) -> None:
    scene.register()
    seen: list[tuple[str, int, str, str | None]] = []
    task_id = scene.submit(traceparent=PARENT)
    view = scene.reader.task(task_id)
    assert view is not None
    assert view.traceparent == PARENT
    claims = [_claimed(scene, seen)]
    spans = [claims[0].span]
    with scene.ledger.looking() as look:
        (orphan,) = look.orphans("another_node")
    assert (orphan.traceparent, orphan.span) == (PARENT, spans[0])
    scene.finish(claims[0], raised("E", "no", ""))
    scene.pass_time(3600)
    spans.append(_claimed(scene, seen).span)
    assert seen == [(task_id, 1, "greet", PARENT), (task_id, 2, "greet", PARENT)]
    assert [one.traceparent for one in scene.reader.attempts(task_id)] == spans
    assert spans == [f"{PARENT[:36]}{attempt:016x}-01" for attempt in (1, 2)]


def test_without_traces_there_is_nothing_to_keep(scene: Scene) -> None:
    claim = scene.running()
    assert (claim.traceparent, claim.span) == (None, None)
    (attempt,) = scene.reader.attempts(claim.task_id)
    assert attempt.traceparent is None


def test_the_claim_hands_on_where_the_task_was_submitted(scene: Scene) -> None:
    claim = scene.running(traceparent=PARENT)
    assert (claim.traceparent, claim.span) == (PARENT, None)


def test_a_submit_that_is_repeated_from_another_trace_is_the_same_one(scene: Scene) -> None:
    task_id = "task_" + "a" * 32
    spec = TaskSpec(type="greet", task_id=task_id, traceparent=PARENT)
    again = TaskSpec(type="greet", task_id=task_id, traceparent=OTHER)
    with scene.ledger.transaction() as tx:
        answers = tx.submit([spec, again], START)
    assert [answer.created for answer in answers] == [True, False]
    with scene.ledger.transaction() as tx:
        assert not tx.submit([again], START)[0].created
    view = scene.reader.task(task_id)
    assert view is not None
    assert view.traceparent == PARENT


def test_of_a_large_batch_each_task_keeps_its_own(scene: Scene) -> None:
    specs = [
        TaskSpec(type="greet", traceparent=f"{PARENT[:36]}{number:016x}-01" if number % 2 else None)
        for number in range(1, 300)
    ]
    with scene.ledger.transaction() as tx:
        answers = tx.submit(specs, START)
    kept = [scene.reader.task(answer.task_id).traceparent for answer in answers]  # type: ignore[union-attr]
    assert kept == [spec.traceparent for spec in specs]
