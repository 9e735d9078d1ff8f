"""/metrics, /healthz and /readyz of a node, against what the store's rows say."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

from harness import NodeUnderTest, Start, eventually

from supervisor.model.states import REQUEUE_REASONS, State

Labels = tuple[tuple[str, str], ...]


def family(node: NodeUnderTest, name: str) -> dict[Labels, float]:
    """Return the samples of one metric that are not 0."""
    found = {labels: value for (full, labels), value in node.metrics().items() if full == name}
    return {labels: value for labels, value in found.items() if value}


def endings_in_sql(node: NodeUnderTest, more: str = "") -> dict[Labels, float]:
    rows = node.query(
        "SELECT queue, type, outcome, attempts.reason FROM attempts JOIN tasks USING (task_id)"
        f" WHERE outcome IS NOT NULL {more}"
    )
    counted = Counter(
        (
            ("outcome", "requeued" if reason in REQUEUE_REASONS else outcome.lower()),
            ("queue", queue),
            ("type", kind),
        )
        for queue, kind, outcome, reason in rows
    )
    return {labels: float(count) for labels, count in counted.items()}


def test_metrics_agree_with_the_rows(start_node: Start, tmp_path: Path) -> None:
    node = start_node(workers=2)
    ends = [node.submit("ok") for _ in range(5)]
    ends += [node.submit("boom") for _ in range(2)]
    ends += [node.submit("crash", path=str(tmp_path / "crash")), node.submit("nap")]
    ends += [node.submit("polite", path=str(tmp_path / "polite"))]
    canceled = node.submit("wait")
    node.started(canceled, 20)
    canceled.cancel(by="anna", reason="enough")
    node.app.wait([h.task_id for h in [*ends, canceled]], 30)
    assert node.app.pause("later", by="anna", reason="not yet")
    for _ in range(3):
        node.submit("ok", spec={"queue": "later"})
    node.submit("ok", spec={"run_after": "2999-01-01T00:00:00Z"})
    running = node.submit("wait")
    node.started(running)

    expected = endings_in_sql(node)
    known = {labels: n for labels, n in expected.items() if ("outcome", "requeued") not in labels}
    assert known == {
        (("outcome", "success"), ("queue", "default"), ("type", "ok")): 5.0,
        (("outcome", "failed"), ("queue", "default"), ("type", "boom")): 4.0,
        (("outcome", "failed"), ("queue", "default"), ("type", "crash")): 1.0,
        (("outcome", "success"), ("queue", "default"), ("type", "crash")): 1.0,
        (("outcome", "timeout"), ("queue", "default"), ("type", "nap")): 1.0,
        (("outcome", "timeout"), ("queue", "default"), ("type", "polite")): 1.0,
        (("outcome", "canceled"), ("queue", "default"), ("type", "wait")): 1.0,
    }
    eventually(
        lambda: family(node, "supervisor_tasks_finished_total") == expected, 3, "the counters agree"
    )
    begun = endings_in_sql(node, "AND started_at IS NOT NULL")
    without_queue = {
        (labels[0], labels[2]): count for labels, count in begun.items()
        if labels[0] != ("outcome", "requeued")
    }  # fmt: skip
    assert family(node, "supervisor_running_duration_seconds_count") == without_queue
    assert sum(family(node, "supervisor_timeout_used_ratio_count").values()) == sum(
        without_queue.values()
    )
    started = node.query(
        "SELECT queue, type, count(*) FROM attempts JOIN tasks USING (task_id)"
        " WHERE started_at IS NOT NULL GROUP BY queue, type"
    )
    assert family(node, "supervisor_tasks_started_total") == {
        (("queue", queue), ("type", kind)): float(count) for queue, kind, count in started
    }
    taken = node.query("SELECT status, count(*) FROM autopsies GROUP BY status")
    assert family(node, "supervisor_autopsies_total") == {
        (("status", status),): float(count) for status, count in taken
    }
    assert family(node, "supervisor_kills_total") == {(("verdict", "timeout"),): 1.0}
    assert family(node, "supervisor_cancel_requests_total") == {(("type", "wait"),): 1.0}
    (born,) = node.query("SELECT count(*) FROM workers")
    assert sum(family(node, "supervisor_worker_spawns_total").values()) == born[0]
    (gone,) = node.query("SELECT count(*) FROM workers WHERE ended_at IS NOT NULL")
    assert sum(family(node, "supervisor_worker_exits_total").values()) == gone[0]
    eventually(
        lambda: family(node, "supervisor_in_queue") == {(("queue", "later"), ("type", "ok")): 3.0}
        and family(node, "supervisor_scheduled") == {(("queue", "default"), ("type", "ok")): 1.0}
        and family(node, "supervisor_running") == {(("queue", "default"), ("type", "wait")): 1.0},
        3, "the gauges of the queues",
    )  # fmt: skip
    eventually(
        lambda: family(node, "supervisor_workers")
        == {(("state", "busy"),): 1.0, (("state", "idle"),): 1.0},
        3, "the gauges of the workers",
    )  # fmt: skip
    assert family(node, "supervisor_store_up") == {(): 1.0}
    assert family(node, "supervisor_loop_errors_total") == {}
    assert family(node, "supervisor_illegal_transitions_total") == {}
    assert family(node, "supervisor_label_values_dropped_total") == {}
    assert "task_0" not in node.get("/metrics")[1], "no id is a label"
    running.cancel(by="anna", reason="over")
    running.wait(5)


def test_health(node: NodeUnderTest) -> None:
    status, body = node.get("/healthz")
    alive = json.loads(body)
    assert (status, alive["alive"], alive["loop_still_s"] < 2) == (200, True, True)
    assert node.get("/readyz") == (200, json.dumps({"ready": True, "reasons": [], "notes": []}))
    status, body = node.get("/nowhere")
    assert (status, json.loads(body)) == (404, {"error": "only /metrics, /healthz and /readyz"})


def test_ready_says_why_not(start_node: Start) -> None:
    node = start_node(drain_grace=30)
    handle = node.submit("wait")
    node.started(handle)
    node.signal(signal.SIGTERM)

    def stopping() -> bool:
        status, body = node.get("/readyz")
        told = json.loads(body) if status else {}
        return status == 503 and "stopping: received SIGTERM" in told["reasons"]

    eventually(stopping, 3, "it is not ready while it stops")
    assert node.get("/healthz")[0] == 200
    handle.cancel(by="anna", reason="over")
    assert node.wait_exit(10) == 0


def test_type_that_nobody_knows(node: NodeUnderTest) -> None:
    """It stays PENDING, is reported, and blocks nobody."""
    handle = node.submit("of_another_app")
    assert node.run("ok", value=1).state is State.SUCCESS

    def noted() -> bool:
        notes = json.loads(node.get("/readyz")[1])["notes"]
        return notes == ["tasks of type of_another_app wait: no such type in this app"]

    eventually(noted, 8, "it is told on /readyz")
    assert [e["type"] for e in node.events("task.unrouted")] == ["of_another_app"]
    assert handle.state() is State.PENDING
    handle.cancel(by="anna", reason="over")
    assert handle.wait(5).state is State.CANCELED
