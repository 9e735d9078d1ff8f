"""At the limits of the host a node does less and says so; it recovers by itself."""

from __future__ import annotations

import json
import os
import resource
import signal

from harness import NodeUnderTest, Start, eventually

from supervisor.model.states import State


def allow_descriptors(node: NodeUnderTest, number: int) -> None:
    _, hard = resource.prlimit(node.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(node.pid, resource.RLIMIT_NOFILE, (min(number, hard), hard))


def open_descriptors(node: NodeUnderTest) -> int:
    return len(os.listdir(f"/proc/{node.pid}/fd"))


def test_no_descriptors_for_more_workers(start_node: Start) -> None:
    """Two of twelve workers can be had: these serve, evidence is taken, and the alarm is on."""
    limit = ("prlimit", "--nofile=64:64")
    node = start_node(run=False, prefix=limit, workers=12, restart_intensity="3/60")
    node.start(wait=False)
    eventually(lambda: node.events("restart.halted"), 10, "births are halted")
    eventually(lambda: 1 <= len(node.worker_pids()) <= 3, 5, "one to three workers serve")
    why = {event["error"] for event in node.events("spawn.failed")}
    assert [words.split(":")[0] for words in why] == ["too few descriptors left"] * len(why)
    handles = node.app.submit_many([{"type": "sleep", "params": {"s": 0.05}}] * 20)
    stuck = node.submit("nap", spec={"max_retries": 0})
    assert {view.state for view in node.app.wait([h.task_id for h in handles], 20)} == {
        State.SUCCESS
    }
    assert stuck.wait(15).state is State.TIMEOUT
    assert node.bundle(stuck.task_id).heading.diagnosis
    eventually(lambda: node.get("/readyz")[0] == 503, 5, "between two tries it is ready")
    reasons = json.loads(node.get("/readyz")[1])["reasons"]
    assert reasons == ["workers die at their start: births are halted"]
    assert node.get("/healthz")[0] == 200
    assert node.metrics()["supervisor_restart_halted", ()] == 1
    assert node.events("loop.failed") == []


def test_descriptors_used_up_and_given_back(start_node: Start) -> None:
    """A worker that dies cannot be replaced until there is room; the other one goes on."""
    node = start_node(workers=2, restart_intensity="1/60")
    eventually(lambda: len(node.worker_pids()) == 2, 10)
    first, second = node.worker_pids()
    before = open_descriptors(node)
    allow_descriptors(node, before)
    os.kill(first, signal.SIGKILL)
    eventually(lambda: node.events("restart.halted"), 10, "births are halted")
    assert node.worker_pids() == [second]
    assert node.run("ok", value=1).state is State.SUCCESS
    assert node.get("/readyz")[0] == 503
    allow_descriptors(node, 10_000)
    eventually(lambda: len(node.worker_pids()) == 2, 15, "the worker is replaced")
    eventually(lambda: node.get("/readyz")[0] == 200, 5)
    assert open_descriptors(node) <= before + 2
    assert node.events("loop.failed") == []
