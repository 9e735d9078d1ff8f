"""Orders to a real node, given through the store by another process: on a file and on a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import NodeUnderTest, Start, eventually, on_both_stores

from autopsy.bundle import read_bundle
from supervisor.errors import Refused
from supervisor.model.order import UNANSWERED, Order
from supervisor.model.states import State

WHO = {"by": "anna", "reason": "it hangs"}


def answered(node: NodeUnderTest, order_id: str, timeout: float = 20.0) -> str:
    """Wait for the answer of an order."""

    def answer() -> str | None:
        order = node.client.orders.order(order_id)
        assert order is not None
        return order.answer

    return eventually(answer, timeout, "the order is answered") or ""


def asked(node: NodeUnderTest, kind: str) -> str:
    """Ask something of a node and return its answer."""
    return answered(node, node.client.orders.ask(node.node_id(), kind, **WHO))


@on_both_stores
def test_evidence_of_a_hopeless_task_is_taken_and_it_runs_on(start_node: Start) -> None:
    node = start_node(timeout=200)
    handle = node.submit("swallow")
    node.started(handle)
    task_id = handle.task_id
    order_id = node.client.orders.ask(None, "capture", task_id=task_id, attempt=1, **WHO)
    assert node.client.orders.ask(None, "capture", task_id=task_id, attempt=1, **WHO) == order_id
    answer = answered(node, order_id)
    assert answer.startswith(("complete: ", "partial: ")), answer
    (record,) = node.reader.autopsies(task_id)
    assert answer.endswith(f"bundle {record.autopsy_id}")
    assert (record.verdict, record.attempt) == ("asked", 1)
    bundle = read_bundle(Path(record.path))
    assert bundle.heading.why == "asked for by anna: it hangs"
    assert handle.state() is State.RUNNING
    assert [one.ended_at for one in node.attempts(task_id)] == [None]
    notes = node.notes(task_id)
    assert [one for one in notes if "order" in one] == ["capture_ordered", "order_answered"]
    handle.cancel(by="anna", reason="seen enough")
    assert handle.wait(30).state is State.CANCELED
    with pytest.raises(Refused, match=f"{task_id} is CANCELED: nothing of it runs"):
        node.client.orders.ask(None, "capture", task_id=task_id, attempt=1, **WHO)


def test_a_node_drains_takes_tasks_again_and_stops(start_node: Start) -> None:
    node = start_node(drain_grace=20)
    running = node.submit("sleep", s=1.5)
    node.started(running)
    assert asked(node, "drain") == "it takes no more tasks; 1 run to their end"
    waiting = node.submit("ok")
    assert running.wait(20).state is State.SUCCESS

    def stage() -> str:
        seen = node.client.vitals.latest(node.node_id())
        return "" if seen is None else str(seen.node["stage"])

    eventually(lambda: stage() == "drained", 12, "the stage is shown")
    (listed,) = node.cli_json("nodes")["nodes"]
    assert (listed["state"], listed["stage"]) == ("running", "drained")
    assert "supervisor_draining 1.0" in node.get("/metrics")[1]
    status, why = node.get("/readyz")
    assert (status, "takes no tasks: asked by anna: it hangs" in why) == (503, True)
    assert waiting.state() is State.PENDING
    assert asked(node, "undrain") == "it takes tasks again"
    assert waiting.wait(10).state is State.SUCCESS
    again = node.cli_json("node", "undrain", node.name, "--reason", "sure", "--by", "bob")
    assert again["order"]["answer"] == "it was not told to take no more tasks"
    refused = node.cli("node", "drain", "host-9", "--reason", "x")
    assert (refused.returncode, "no node host-9 runs" in refused.stderr) == (1, True)
    node_id = node.node_id()
    order_id = node.client.orders.ask(node_id, "stop", **WHO)
    assert node.wait_exit(30) == 0
    assert answered(node, order_id) == "it stops; 0 running may go on for up to 20 s"
    (gone,) = [one for one in node.reader.nodes() if one.node_id == node_id]
    assert gone.note == "asked by anna: it hangs"
    with pytest.raises(Refused, match=f"node {node_id} has ended"):
        node.client.orders.ask(node_id, "drain", **WHO)


def test_vital_signs_are_those_of_the_processes(start_node: Start) -> None:
    node = start_node()
    handle = node.submit("wait")
    node.started(handle)

    def seen() -> dict[str, object] | None:
        latest = node.client.vitals.latest(node.node_id())
        return None if latest is None else latest.of_attempt(handle.task_id, 1)

    worker = eventually(seen, 15, "the attempt is shown")
    assert worker is not None
    (attempt,) = node.attempts(handle.task_id)
    assert (worker["worker_id"], worker["pid"]) == (attempt.worker_id, attempt.pid)
    assert worker["state"] == "busy"
    assert int(str(worker["rss"])) > 5 * 2**20
    assert int(str(worker["fds"])) > 3
    assert 0 <= float(str(worker["heartbeat_age_s"])) < 3
    latest = node.client.vitals.latest(node.node_id())
    assert latest is not None
    assert len(latest.workers) == 2
    assert latest.node["stage"] == "running"
    assert latest.node["rss"] > 20 * 2**20
    assert 0 < latest.node["cpu_s"] < 60
    handle.cancel(by="anna", reason="seen")
    handle.wait(20)


def test_what_a_dead_node_left_open_is_answered_and_never_done(start_node: Start) -> None:
    node = start_node()
    handle = node.submit("sleep")
    node.started(handle)
    node_id, task_id = node.node_id(), handle.task_id
    ids = [node.client.orders.ask(None, "capture", task_id=task_id, attempt=1, **WHO)]
    eventually(lambda: node.events("order.received"), 10, "it has begun")
    node.kill()  # in the midst of it
    ids.append(node.client.orders.ask(node_id, "drain", **WHO))
    node.start()
    assert [answered(node, one) for one in ids] == [UNANSWERED, UNANSWERED]
    assert node.reader.autopsies(task_id) == []
    assert len(node.events("order.received")) == 1
    orders: list[Order] = node.client.orders.of_node(node_id)
    assert [one.answer for one in orders] == [UNANSWERED, UNANSWERED]
    eventually(lambda: handle.view().attempt == 2, 20, "it runs again")
    with pytest.raises(Refused, match=f"attempt 1 of {task_id} is over: attempt 2 runs now"):
        node.client.orders.ask(None, "capture", task_id=task_id, attempt=1, **WHO)
    handle.cancel(by="anna", reason="seen")
    handle.wait(20)
