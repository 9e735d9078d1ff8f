"""A storm: random tasks while workers and the node are killed.

Secret kept here: what a storm consists of and how every kind of task in it may end; invariants.py
judges what is left. The chaos suite runs a small storm; `make soak` runs a large one and makes the
same demands.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from harness import NodeUnderTest, eventually
from invariants import Account, Ends, executions

from supervisor.model.states import CRASH_REASONS
from supervisor.store import TaskView
from supervisor.worker import tree

APP = "tests.programs.tasks_storm:app"
SETTINGS: Mapping[str, object] = {
    "workers": 4, "max_crashes": 20, "restart_intensity": "100000/60", "autopsy_budget": 2,
}  # fmt: skip
KINDS = ("ok", "aok", "fail", "flaky", "crash", "overrun", "stubborn")
WEIGHTS = (60, 10, 10, 10, 6, 3, 1)
#: Their number of runs is fixed; all others are repeated until they come through.
UNREPEATED = ("fail", "overrun", "stubborn")
RETRIES = 20
#: Ends that two kinds of death nobody planned may also lead to.
UNPLANNED: Ends = frozenset(
    {*(("FAILED", str(reason)) for reason in CRASH_REASONS), ("TIMEOUT", "node_lost")}
)
CANCELED: Ends = frozenset({("CANCELED", "canceled")})
#: How a kind may end that is not the only SUCCESS; `waits` and `hangs` end by a cancel alone.
OTHER_ENDS: Mapping[str, Ends] = {
    "fail": frozenset({("FAILED", "raised")}),
    "overrun": frozenset({("TIMEOUT", "soft_timeout")}),
    "stubborn": frozenset({("TIMEOUT", "timeout")}),
    "waits": frozenset(),
    "hangs": frozenset(),
}
BATCH, CANCELS_PER_BATCH = 30, 3
#: The part of the kills that hit no worker but what else the node has started.
OTHERS = 0.15
#: No more tasks than this wait while the storm submits, so that kills are spread over all of it.
BACKLOG = 300


def allowed_ends(kind: str, *, canceled: bool) -> Ends:
    """Return how a task of this kind may end when workers and nodes are killed."""
    ends = OTHER_ENDS.get(kind, frozenset({("SUCCESS", "returned")}))
    return ends | (UNPLANNED if kind in UNREPEATED else ends) | (CANCELED if canceled else ends)


def retries_of(kind: str) -> dict[str, int]:
    """Return the retries a task of this kind is submitted with, if not those of its type."""
    return {} if kind in UNREPEATED else {"max_retries": RETRIES}


class Killer:
    """Kills a worker now and then until it is told to stop; sometimes the zygote or an autopsy."""

    def __init__(self, node: NodeUnderTest, rng: random.Random) -> None:
        self.node = node
        self.rng = rng
        self.kills = self.other_kills = 0
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
                workers = self.node.worker_pids()
                others = [p for p in tree.children(self.node.pid) if p not in workers]
                hits_other = bool(others) and self.rng.random() < OTHERS
                if victims := others if hits_other else workers:
                    self._kill(self.rng.choice(victims), other=hits_other)

    def _kill(self, pid: int, *, other: bool) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            if other:
                self.other_kills += 1
            else:
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
    other_kills: int = 0
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
        self.kills, self.other_kills = killer.kills, killer.other_kills
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
            "zygote_and_tool_kills": self.other_kills,
            "node_kills": self.node_kills,
            "cancels": len(self.canceled),
            "executions": sum(times),
            "tasks_run_again": sum(number > 1 for number in times),
        }

    def account(self) -> Account:
        """Return what is on record, to be judged."""
        expected = {
            task_id: allowed_ends(spec["type"], canceled=task_id in self.canceled)
            for task_id, spec in zip(self.ids, self.specs, strict=True)
        }
        return Account(self.node.query, expected, self.runs)

    def violations(self) -> list[str]:
        """Say everything that should not be so; empty when the storm was weathered."""
        missing = [f"lost: {task_id} cannot be read" for task_id in set(self.ids) - set(self.views)]
        return [*missing, *self.account().violations(), *self._complaints()]

    def _complaints(self) -> Iterator[str]:
        """What the node said of itself."""
        for name in ("transition.refused", "loop.failed"):
            for event in self.node.events(name):
                yield f"node: {event}"
        metrics = self.node.metrics()
        for name in ("illegal_transitions_total", "loop_errors_total"):
            if metrics[f"supervisor_{name}", ()] != 0:
                yield f"node: {name} is {metrics[f'supervisor_{name}', ()]:g}"
        for one in self.node.place.damage():
            yield f"store: {one}"


def _specs(rng: random.Random, tasks: int, runs: Path) -> Iterator[dict[str, Any]]:
    for kind in rng.choices(KINDS, WEIGHTS, k=tasks):
        yield {
            "type": kind,
            "params": {"path": str(runs), "s": round(rng.expovariate(20), 3)},
            "priority": rng.randrange(10),
            **retries_of(kind),
        }


def _wait_for_room(node: NodeUnderTest) -> None:
    eventually(lambda: live(node) < BACKLOG, 60, "the backlog shrinks")


def live(node: NodeUnderTest) -> int:
    """Return how many tasks have not ended."""
    ((number,),) = node.query("SELECT count(*) FROM tasks WHERE state IN ('PENDING', 'RUNNING')")
    return int(number)


def settle(node: NodeUnderTest, workers: int) -> None:
    """Require the full number of workers after the storm, and nobody else."""
    eventually(lambda: len(node.worker_pids()) == workers, 15, "all workers are there")
    eventually(lambda: not node.extra_processes(), 5, "no other process is left")
    eventually(lambda: len(node.processes()) == workers + 2, 5, "node, zygote and workers")


def chosen_seed(given: int | None = None) -> int:
    """Return the seed that was asked for (`STORM_SEED`), or a new one."""
    seed = given if given is not None else os.environ.get("STORM_SEED")
    return int(seed if seed is not None else time.time_ns() % 10**6)
