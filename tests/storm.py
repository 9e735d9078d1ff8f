"""A storm: random tasks while workers and nodes are killed, or the servers they need.

Secret kept here: what a storm consists of and how every kind of task in it may end; invariants.py
judges what is left. The chaos suite runs small storms; `make soak` runs large ones and makes the
same demands. The nodes of one storm have one store.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

from harness import SHORT_LEASE, NodeUnderTest, Start, eventually
from invariants import Account, Ends, executions

from supervisor.errors import StoreUnavailable
from supervisor.model.states import CRASH_REASONS
from supervisor.worker import tree

APP = "tests.programs.tasks_storm:app"
SETTINGS: Mapping[str, object] = {
    "workers": 4, "max_crashes": 20, "restart_intensity": "100000/60", "autopsy_budget": 2,
}  # fmt: skip
KINDS = ("ok", "aok", "fail", "flaky", "crash", "overrun", "stubborn")
WEIGHTS = (60, 10, 10, 10, 6, 3, 1)
#: Of a storm of very many tasks over several nodes: most of them are short and harmless.
FLEET: Mapping[str, Any] = {
    "weights": (880, 60, 20, 20, 10, 8, 2), "mean_s": 0.005, "batch": 100, "backlog": 600,
}  # fmt: skip
FLEET_SETTINGS: Mapping[str, object] = {**SETTINGS, **SHORT_LEASE, "workers": 2}
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
#: How long a client tries again while the store is away.
PERSISTENCE_S = 60.0

T = TypeVar("T")


def allowed_ends(kind: str, *, canceled: bool) -> Ends:
    """Return how a task of this kind may end when workers and nodes are killed."""
    ends = OTHER_ENDS.get(kind, frozenset({("SUCCESS", "returned")}))
    return ends | (UNPLANNED if kind in UNREPEATED else ends) | (CANCELED if canceled else ends)


def retries_of(kind: str) -> dict[str, int]:
    """Return the retries a task of this kind is submitted with, if not those of its type."""
    return {} if kind in UNREPEATED else {"max_retries": RETRIES}


class Killer:
    """Kills a worker now and then until it is told to stop; sometimes the zygote or an autopsy."""

    def __init__(self, nodes: Sequence[NodeUnderTest], rng: random.Random) -> None:
        self.nodes = nodes
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

    def kill_a_node(self) -> None:
        with self._hold:
            node = self.rng.choice(self.nodes)
            node.kill()
            node.start(wait=False)
            node.wait_ready(PERSISTENCE_S)

    def _rage(self) -> None:
        while not self._over.wait(self.rng.uniform(0.08, 0.25)):
            with self._hold:
                node = self.rng.choice(self.nodes)
                workers = node.worker_pids()
                others = [p for p in tree.children(node.pid) if p not in workers]
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


class Feeder:
    """Submits random tasks until it is told to stop; whoever uses it may do something else."""

    def __init__(self, storm: Storm) -> None:
        self._storm = storm
        self._over = threading.Event()
        self._wrong: BaseException | None = None
        self._thread = threading.Thread(target=self._feed)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._wrong is not None:
            raise self._wrong

    def _feed(self) -> None:
        try:
            while not self._over.is_set():
                self._storm.feed(self._storm.batch)
        except BaseException as exc:
            self._wrong = exc


@dataclass
class Storm:
    """One storm and what is known of it."""

    nodes: Sequence[NodeUnderTest]
    seed: int
    runs: Path
    weights: Sequence[int] = WEIGHTS
    mean_s: float = 0.05
    batch: int = BATCH
    backlog: int = BACKLOG
    specs: list[dict[str, Any]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    canceled: set[str] = field(default_factory=set)
    #: How each ended; without the tasks that tasks have submitted.
    ends: dict[str, str] = field(default_factory=dict)
    rng: random.Random = field(init=False)
    kills: int = 0
    other_kills: int = 0
    node_kills: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

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
        batches = -(-tasks // self.batch)
        strikes = {batches * n // (node_kills + 1) for n in range(1, node_kills + 1)}
        with Killer(self.nodes, self.rng) as killer:
            for number in range(batches):
                self.feed(min(self.batch, tasks - len(self.ids)))
                if number in strikes:
                    killer.kill_a_node()
                    self.node_kills += 1
                tell(len(self.ids) - live(self.node))
            eventually(lambda: killer.kills >= least_kills, 30, "enough kills")
        self.kills, self.other_kills = killer.kills, killer.other_kills
        self.end(patience_s)
        tell(len(self.ids))

    def feed(self, tasks: int) -> None:
        """Submit so many random tasks, cancel a few, and wait until there is room for more."""
        self._submit([self._spec(len(self.ids) + n) for n in range(tasks)])
        young = self.ids[-10 * self.batch :]
        self._cancel(self.rng.sample(young, min(len(young), CANCELS_PER_BATCH)))
        eventually(lambda: live(self.node) < self.backlog, 2 * PERSISTENCE_S, "room for more")

    def end(self, patience_s: float) -> None:
        """Wait until all tasks have ended. Raises: AssertionError."""
        eventually(lambda: live(self.node) == 0, patience_s, "all tasks have ended")
        ids = set(self.ids)
        rows = self.node.query("SELECT task_id, state, reason FROM tasks")
        self.ends = {
            task_id: f"{state} {reason}" for task_id, state, reason in rows if task_id in ids
        }

    @property
    def node(self) -> NodeUnderTest:
        """The node whose client is used."""
        return self.nodes[0]

    def _spec(self, number: int) -> dict[str, Any]:
        (kind,) = self.rng.choices(KINDS, self.weights)
        params = {"path": str(self.runs), "s": round(self.rng.expovariate(1 / self.mean_s), 3)}
        # A client of a server may have to repeat what was perhaps written.
        key = {} if self.node.is_alone else {"dedup_key": f"storm {number}", "dedup_ttl": 3600}
        priority = self.rng.randrange(10)
        return {
            "type": kind, "params": params, "priority": priority, **retries_of(kind), **key,
        }  # fmt: skip

    def _submit(self, specs: list[dict[str, Any]]) -> None:
        handles = persistently(lambda: self.node.app.submit_many(specs))
        self.specs += specs
        self.ids += [handle.task_id for handle in handles]

    def _cancel(self, chosen: list[str]) -> None:
        """Those whose cancel failed may have been canceled as well."""
        for task_id in chosen:
            try:
                answers = self.node.app.cancel([task_id], by="storm", reason="at random")
            except StoreUnavailable:
                self.canceled.add(task_id)
            else:
                words = ("canceled", "requested")
                self.canceled |= {a.task_id for a in answers if a.answer in words}

    def figures(self) -> dict[str, Any]:
        """Return what happened in it."""
        times = [len(numbers) for numbers in executions(self.runs).values()]
        return {
            "tasks": len(self.ids),
            "ends": dict(Counter(self.ends.values())),
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
        return Account(self.node.query, expected, self.runs, len(self.nodes))

    def violations(self) -> list[str]:
        """Say everything that should not be so; empty when the storm was weathered."""
        missing = [f"lost: {task_id} cannot be read" for task_id in set(self.ids) - set(self.ends)]
        return [*missing, *self.account().violations(), *self._complaints()]

    def _complaints(self) -> Iterator[str]:
        """What the nodes said of themselves."""
        for node in self.nodes:
            for event in (*node.events("transition.refused"), *node.events("loop.failed")):
                yield f"{node.name}: {event}"
            metrics = node.metrics()
            for name in ("illegal_transitions_total", "loop_errors_total"):
                if metrics[f"supervisor_{name}", ()] != 0:
                    yield f"{node.name}: {name} is {metrics[f'supervisor_{name}', ()]:g}"
        for one in self.node.place.damage():
            yield f"store: {one}"


def persistently(call: Callable[[], T]) -> T:
    """Call until the store answers, as a client does that may repeat itself."""
    give_up = time.monotonic() + PERSISTENCE_S
    while True:
        try:
            return call()
        except StoreUnavailable:
            if time.monotonic() > give_up:
                raise
        time.sleep(0.1)


def live(node: NodeUnderTest) -> int:
    """Return how many tasks have not ended."""
    ((number,),) = node.query("SELECT count(*) FROM tasks WHERE state IN ('PENDING', 'RUNNING')")
    return int(number)


def start_fleet(start: Start, number: int) -> list[NodeUnderTest]:
    """Start so many nodes on one new store of the kind that `start` makes."""
    first = start(APP, node_name="node0", **FLEET_SETTINGS)
    rest = [
        start(APP, shares=first, node_name=f"node{n}", **FLEET_SETTINGS) for n in range(1, number)
    ]
    return [first, *rest]


def settle(node: NodeUnderTest, workers: int) -> None:
    """Require the full number of workers after the storm, and nobody else."""
    eventually(lambda: len(node.worker_pids()) == workers, 15, "all workers are there")
    nobody_else(node)
    wanted = workers + node.own_processes
    eventually(lambda: len(node.processes()) == wanted, 5, f"{wanted} processes")


def nobody_else(node: NodeUnderTest, timeout: float = 5.0) -> None:
    """Require that nothing but its own lives below a node."""
    give_up = time.monotonic() + timeout
    while others := node.extra_processes():
        assert time.monotonic() < give_up, others
        time.sleep(0.05)


def chosen_seed(given: int | None = None) -> int:
    """Return the seed that was asked for (`STORM_SEED`), or a new one."""
    seed = given if given is not None else os.environ.get("STORM_SEED")
    return int(seed if seed is not None else time.time_ns() % 10**6)
