"""A storm: random tasks while workers and the node are killed, and the judgement of what is left.

Secret kept here: what "nothing lost, nothing twice" means, as a list of violations. The chaos suite
runs a small storm; `make soak` runs a large one and makes the same demands.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

from harness import NodeUnderTest, eventually

from supervisor.model.states import ENDED, State, is_legal
from supervisor.store import TaskView

APP = "tests.programs.tasks_storm:app"
SETTINGS: Mapping[str, object] = {
    "workers": 4, "max_crashes": 20, "restart_intensity": "100000/60", "autopsy_budget": 2,
}  # fmt: skip
KINDS = ("ok", "aok", "fail", "flaky", "crash", "overrun", "stubborn")
WEIGHTS = (60, 10, 10, 10, 6, 3, 1)
#: Their number of runs is fixed; all others are repeated until they come through.
UNREPEATED = ("fail", "overrun", "stubborn")
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
BATCH, CANCELS_PER_BATCH = 30, 3
#: No more tasks than this wait while the storm submits, so that kills are spread over all of it.
BACKLOG = 300


class Move(NamedTuple):
    """One audited move of a task."""

    before: str | None
    after: str
    operator: str
    reason: str
    attempt: int


class Killer:
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


@dataclass
class Storm:
    """One storm and what is known of it."""

    node: NodeUnderTest
    seed: int
    runs: Path
    specs: list[dict[str, Any]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    canceled: set[str] = field(default_factory=set)
    views: dict[str, TaskView] = field(default_factory=dict)
    kills: int = 0
    node_kills: int = 0

    def blow(
        self,
        tasks: int,
        *,
        node_kills: int,
        least_kills: int,
        patience_s: float,
        tell: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Run `tasks` random tasks through kills of workers and of the node, until all have ended.

        Raises: AssertionError when they have not ended within `patience_s` of the last submit.
        """
        rng = random.Random(self.seed)
        self.specs = list(_specs(rng, tasks, self.runs))
        strikes = {tasks * n // (node_kills + 1) // BATCH * BATCH for n in range(1, node_kills + 1)}
        with Killer(self.node, rng) as killer:
            for start in range(0, tasks, BATCH):
                self._submit(rng, start)
                if start in strikes:
                    killer.kill_the_node()
                    self.node_kills += 1
                _wait_for_room(self.node)
                tell(len(self.ids) - live(self.node))
            eventually(lambda: killer.kills >= least_kills, 30, "enough kills")
        self.kills = killer.kills
        eventually(lambda: live(self.node) == 0, patience_s, "all tasks have ended")
        tell(len(self.ids))
        self.views = {view.task_id: view for view in self.node.app.wait(self.ids, 10)}

    def _submit(self, rng: random.Random, start: int) -> None:
        app = self.node.app
        handles = app.submit_many(self.specs[start : start + BATCH])
        self.ids += [handle.task_id for handle in handles]
        young = self.ids[-10 * BATCH :]
        chosen = rng.sample(young, min(len(young), CANCELS_PER_BATCH))
        answers = app.cancel(chosen, by="storm", reason="at random")
        self.canceled |= {a.task_id for a in answers if a.answer in ("canceled", "requested")}

    def figures(self) -> dict[str, Any]:
        """Return what happened in it."""
        times = [len(numbers) for numbers in executions(self.runs).values()]
        return {
            "tasks": len(self.ids),
            "ends": dict(Counter(f"{v.state} {v.reason}" for v in self.views.values())),
            "worker_kills": self.kills,
            "node_kills": self.node_kills,
            "cancels": len(self.canceled),
            "executions": sum(times),
            "tasks_run_again": sum(number > 1 for number in times),
        }

    def violations(self) -> list[str]:
        """Say everything that should not be so; empty when the storm was weathered."""
        trails = trails_of(self.node)
        return [
            *self._lost(trails),
            *self._illegal(trails),
            *self._ended_twice(trails),
            *self._run_twice(trails),
            *self._ended_wrongly(),
            *self._complaints(),
        ]

    def _lost(self, trails: Mapping[str, list[Move]]) -> Iterator[str]:
        (stored,) = self.node.query("SELECT count(*) FROM tasks")[0]
        if not stored == len(self.ids) == len(self.specs) == len(self.views):
            yield f"lost: {len(self.specs)} submitted, {stored} stored, {len(self.views)} read"
        for task_id in trails.keys() ^ self.views.keys():
            yield f"lost: {task_id} has no audit trail or no row"
        for view in self.views.values():
            if view.state not in ENDED:
                yield f"lost: {view.task_id} reads {view.state}"

    def _illegal(self, trails: Mapping[str, list[Move]]) -> Iterator[str]:
        """Every move is in the transition table, and the row reads where they lead."""
        for task_id, moves in trails.items():
            wrong = _illegal_move(moves)
            if wrong:
                yield f"illegal: {task_id}: {wrong}"
            elif task_id in self.views and moves[-1].after != self.views[task_id].state:
                yield f"illegal: {task_id} reads {self.views[task_id].state}, audited {moves}"

    def _ended_twice(self, trails: Mapping[str, list[Move]]) -> Iterator[str]:
        """One ending for each attempt, audited as it is stored."""
        stored = {
            (task_id, attempt): outcome
            for task_id, attempt, outcome in self.node.query(
                "SELECT task_id, attempt, outcome FROM attempts"
            )
        }
        audited: dict[tuple[str, int], list[str]] = defaultdict(list)
        for task_id, moves in trails.items():
            for move in moves:
                if move.before == "RUNNING":
                    audited[task_id, move.attempt].append(move.after)
        for key in stored.keys() | audited.keys():
            if audited.get(key, []) != [stored.get(key)]:
                yield f"endings of {key}: stored {stored.get(key)}, audited {audited.get(key)}"

    def _run_twice(self, trails: Mapping[str, list[Move]]) -> Iterator[str]:
        """Each attempt ran once at most; another run comes only after an ending that says why."""
        why = {
            (task_id, move.attempt): move.reason
            for task_id, moves in trails.items()
            for move in moves
            if move.before == "RUNNING"
        }
        for task_id, numbers in executions(self.runs).items():
            for number, times in Counter(numbers).items():
                if times > 1:
                    yield f"twice: {task_id} attempt {number} ran {times} times"
                if why.get((task_id, number), "never_started") == "never_started":
                    yield f"twice: {task_id} attempt {number} ran, and no audit line says so"
            for number in numbers[:-1]:
                if why.get((task_id, number)) not in INTERRUPTED | {"raised"}:
                    yield f"twice: {task_id} ran again after {why.get((task_id, number))}"

    def _ended_wrongly(self) -> Iterator[str]:
        """Everybody ended as it was told to, or by an accident that is on record."""
        for task_id, spec in zip(self.ids, self.specs, strict=True):
            view, kind = self.views[task_id], spec["type"]
            how = (str(view.state), view.reason or "")
            allowed = EXPECTED[kind] | (UNPLANNED if kind in UNREPEATED else set())
            if task_id in self.canceled:
                allowed = allowed | {("CANCELED", "canceled")}
            if how not in allowed:
                yield f"wrong end: {kind} {how} {self.node.endings(task_id)}"

    def _complaints(self) -> Iterator[str]:
        """What the node said of itself."""
        for name in ("transition.refused", "loop.failed"):
            for event in self.node.events(name):
                yield f"node: {event}"
        metrics = self.node.metrics()
        for name in ("illegal_transitions_total", "loop_errors_total"):
            if metrics[f"supervisor_{name}", ()] != 0:
                yield f"node: {name} is {metrics[f'supervisor_{name}', ()]:g}"
        if self.node.query("PRAGMA integrity_check") != [("ok",)]:
            yield "store: integrity check failed"


def _specs(rng: random.Random, tasks: int, runs: Path) -> Iterator[dict[str, Any]]:
    for kind in rng.choices(KINDS, WEIGHTS, k=tasks):
        yield {
            "type": kind,
            "params": {"path": str(runs), "s": round(rng.expovariate(20), 3)},
            "priority": rng.randrange(10),
            "max_retries": None if kind in UNREPEATED else 20,
        }


def _wait_for_room(node: NodeUnderTest) -> None:
    eventually(lambda: live(node) < BACKLOG, 60, "the backlog shrinks")


def _illegal_move(moves: list[Move]) -> str:
    if (moves[0].before, moves[0].after) != (None, "PENDING"):
        return f"begins with {moves[0]}"
    for earlier, move in pairwise(moves):
        if move.before != earlier.after:
            return f"{move} follows {earlier}"
        if not is_legal(State(move.before), State(move.after)):
            return f"{move} is not in the table"
    return ""


def live(node: NodeUnderTest) -> int:
    """Return how many tasks have not ended."""
    ((number,),) = node.query("SELECT count(*) FROM tasks WHERE state IN ('PENDING', 'RUNNING')")
    return int(number)


def executions(runs: Path) -> dict[str, list[int]]:
    """Return the numbers of the attempts that wrote down their execution, in order."""
    found: dict[str, list[int]] = defaultdict(list)
    for line in runs.read_text().splitlines():
        task_id, attempt, *_ = line.split()
        found[task_id].append(int(attempt))
    return dict(found)


def trails_of(node: NodeUnderTest) -> dict[str, list[Move]]:
    """Return the moves of every task."""
    found: dict[str, list[Move]] = defaultdict(list)
    for task_id, *move in node.query(
        "SELECT task_id, from_state, to_state, operator, reason, attempt FROM audit_log"
        " WHERE to_state IS NOT NULL ORDER BY id"
    ):
        found[task_id].append(Move(*move))
    return dict(found)


def settle(node: NodeUnderTest, workers: int) -> None:
    """Require the full number of workers after the storm, and nobody else."""
    eventually(lambda: len(node.worker_pids()) == workers, 15, "all workers are there")
    eventually(lambda: not node.extra_processes(), 5, "no other process is left")
    eventually(lambda: len(node.processes()) == workers + 2, 5, "node, zygote and workers")


def chosen_seed(given: int | None = None) -> int:
    """Return the seed that was asked for (`STORM_SEED`), or a new one."""
    seed = given if given is not None else os.environ.get("STORM_SEED")
    return int(seed if seed is not None else time.time_ns() % 10**6)
