"""300 tasks of every kind while workers and the node are killed: nothing lost, nothing twice."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from harness import NodeUnderTest, Start, eventually

from supervisor.model.states import ENDED, State, is_legal

TASKS = 300
KINDS = ("ok", "aok", "fail", "flaky", "crash", "overrun", "stubborn")
WEIGHTS = (60, 10, 10, 10, 6, 3, 1)
#: How an attempt may have ended without its own report; only then may its task run again unasked.
INTERRUPTED = {"crashed", "node_lost", "shutdown", "timeout", "soft_timeout", "heartbeat_lost"}
#: Ends that two kinds of death nobody planned may also lead to.
UNPLANNED = {("FAILED", "crashed"), ("TIMEOUT", "node_lost")}
EXPECTED: dict[str, set[tuple[str, str]]] = {
    "ok": {("SUCCESS", "returned")},
    "aok": {("SUCCESS", "returned")},
    "fail": {("FAILED", "raised")},
    "flaky": {("SUCCESS", "returned")},
    "crash": {("SUCCESS", "returned")},
    "overrun": {("TIMEOUT", "soft_timeout")},
    "stubborn": {("TIMEOUT", "timeout")},
}


class Storm:
    """Kills a worker now and then until it is told to stop."""

    def __init__(self, node: NodeUnderTest, rng: random.Random) -> None:
        self.node = node
        self.rng = rng
        self.kills = 0
        self._over = threading.Event()
        self._hold = threading.Lock()
        self._thread = threading.Thread(target=self._rage)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def kill_the_node(self) -> None:
        with self._hold:
            self.node.kill()
            self.node.start()

    def _rage(self) -> None:
        while not self._over.wait(self.rng.uniform(0.08, 0.25)):
            with self._hold:
                pids = self.node.worker_pids()
                if pids:
                    try:
                        os.kill(self.rng.choice(pids), signal.SIGKILL)
                    except ProcessLookupError:
                        continue
                    self.kills += 1


def replayed(moves: list[tuple[str | None, str]]) -> State:
    """Replay audited moves against the transition table and return where they end."""
    assert moves[0] == (None, "PENDING")
    for (_, here), (before, after) in pairwise(moves):
        assert before == here, moves
        assert is_legal(State(before), State(after)), moves
    return State(moves[-1][1])


def test_storm(start_node: Start, tmp_path: Path) -> None:
    seed = int(os.environ.get("STORM_SEED", random.SystemRandom().randrange(10**6)))
    print("STORM_SEED =", seed)
    rng = random.Random(seed)
    node = start_node(
        "tests.programs.tasks_storm:app",
        workers=4, max_crashes=20, restart_intensity="1000/60", autopsy_budget=2,
    )  # fmt: skip
    runs = tmp_path / "runs"
    specs: list[dict[str, Any]] = [
        {
            "type": kind,
            "params": {"path": str(runs), "s": round(rng.expovariate(20), 3)},
            "priority": rng.randrange(10),
            "max_retries": 20 if kind not in ("fail", "overrun", "stubborn") else None,
        }
        for kind in rng.choices(KINDS, WEIGHTS, k=TASKS)
    ]
    canceled: set[str] = set()
    ids: list[str] = []
    with Storm(node, rng) as storm:
        for start in range(0, TASKS, 30):
            batch = node.app.submit_many(specs[start : start + 30])
            ids += [handle.task_id for handle in batch]
            chosen = rng.sample(ids, 3)
            answers = node.app.cancel(chosen, by="storm", reason="at random")
            canceled |= {a.task_id for a in answers if a.answer in ("canceled", "requested")}
            if start == 150:
                storm.kill_the_node()
        eventually(lambda: storm.kills >= 15, 30, "enough kills")
    views = {view.task_id: view for view in node.app.wait(ids, 60)}
    settle_all(node)
    assert storm.kills >= 15

    # 0 lost
    assert node.query("SELECT count(*) FROM tasks") == [(TASKS,)]
    assert {view.state for view in views.values()} <= ENDED

    # 0 illegal moves, and the row reads where they end
    trails = trails_of(node)
    assert trails.keys() == views.keys()
    for task_id, moves in trails.items():
        assert replayed([(m[0], m[1]) for m in moves]) is views[task_id].state

    # 0 double endings: one outcome for each attempt, and as many audited endings
    endings = Counter(
        task_id for task_id, moves in trails.items() for m in moves if m[0] == "RUNNING"
    )
    attempts = node.query("SELECT task_id, attempt, outcome, reason FROM attempts ORDER BY 1, 2")
    assert all(outcome is not None for _, _, outcome, _ in attempts)
    assert Counter(task_id for task_id, *_ in attempts) == endings
    ended = {
        (task_id, attempt): (outcome, reason) for task_id, attempt, outcome, reason in attempts
    }
    audited = {
        (task_id, m[4]): m[1]
        for task_id, moves in trails.items()
        for m in moves
        if m[0] == "RUNNING"
    }
    assert audited == {key: outcome for key, (outcome, _) in ended.items()}

    # every execution belongs to an attempt, each attempt ran at most once,
    executions: dict[str, list[int]] = defaultdict(list)
    for line in runs.read_text().splitlines():
        task_id, attempt, *_ = line.split()
        executions[task_id].append(int(attempt))
    for task_id, numbers in executions.items():
        assert len(set(numbers)) == len(numbers), "one attempt ran twice"
        assert all((task_id, number) in ended for number in numbers)
        assert all(ended[task_id, number][1] != "never_started" for number in numbers)
        # and a second one only after an audited ending that says why
        for number in numbers[:-1]:
            assert ended[task_id, number][1] in INTERRUPTED | {"raised"}

    # everybody ended as it was told to, or by an accident that is on record
    for task_id, spec in zip(ids, specs, strict=True):
        view, kind = views[task_id], spec["type"]
        how = (str(view.state), view.reason)
        if how == ("CANCELED", "canceled"):
            assert task_id in canceled
        elif kind in ("fail", "overrun", "stubborn"):
            assert how in EXPECTED[kind] | UNPLANNED, (kind, how)
        else:
            assert how in EXPECTED[kind], (kind, how, node.endings(task_id))

    assert node.events("transition.refused") == []
    assert node.events("loop.failed") == []
    metrics = node.metrics()
    assert metrics[("supervisor_illegal_transitions_total", ())] == 0
    assert metrics[("supervisor_loop_errors_total", ())] == 0
    assert node.query("PRAGMA integrity_check") == [("ok",)]


def settle_all(node: NodeUnderTest) -> None:
    """After the storm: the full number of workers, and nobody else."""
    eventually(lambda: len(node.worker_pids()) == 4, 15, "four workers")
    eventually(lambda: not node.extra_processes(), 5, "no other process is left")
    eventually(lambda: len(node.processes()) == 6, 5, "node, zygote and four workers")


def trails_of(node: NodeUnderTest) -> dict[str, list[tuple[str | None, str, str, str, int]]]:
    """Return the moves of every task: from, to, operator, reason, attempt."""
    found: dict[str, list[tuple[str | None, str, str, str, int]]] = defaultdict(list)
    for task_id, *move in node.query(
        "SELECT task_id, from_state, to_state, operator, reason, attempt FROM audit_log"
        " WHERE to_state IS NOT NULL ORDER BY id"
    ):
        found[task_id].append(tuple(move))
    return dict(found)
