"""Made-up hours of two nodes: all metrics of the catalogue, with incidents one after the other.

Secret kept here: the story. Every label set of the catalogue is there from the first sample on, as
in a node; what the story does not speak of moves a little, so that a metric that is new has data.
The same seed gives the same history. Times of incidents are shares of the whole span.
"""

from __future__ import annotations

import itertools
import math
import random
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from backfill import Labels, Samples, Span, labels_of

from supervisor.telemetry.catalog import CATALOG, COUNTER, EXECUTED, HISTOGRAM, OPEN, PREFIX, Metric

#: 2026-01-01, 12:00 UTC.
END = 1_767_268_800
NODES = ("node-1:9464", "node-2:9464")
SLOTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """A task type of the story; `counts`, `codes` and `steps` are what its tasks tell."""

    name: str
    queue: str
    per_s: float
    mean_s: float
    timeout_s: float
    expected_s: float
    counts: tuple[str, ...] = ("rows",)
    codes: tuple[str, ...] = ("E_DECLINED",)
    steps: tuple[str, ...] = ("load", "store")


TYPES = (
    Type(name="send_email", queue="default", per_s=2, mean_s=0.4, timeout_s=10, expected_s=0.5,
         counts=("mails",), codes=("SMTP_451", "SMTP_550"), steps=("render", "send")),
    Type(name="export_report", queue="default", per_s=0.3, mean_s=12, timeout_s=60, expected_s=12,
         counts=("rows", "pages"), codes=("E_EMPTY",), steps=("query", "write")),
    Type(name="sync_orders", queue="bulk", per_s=0.6, mean_s=5, timeout_s=120, expected_s=6,
         counts=("orders",), codes=("E_STALE",), steps=("fetch", "merge")),
    Type(name="transcode", queue="bulk", per_s=0.05, mean_s=70, timeout_s=300, expected_s=60,
         counts=("frames",), codes=("E_CODEC",), steps=("decode", "encode")),
    Type(name="approve_payment", queue="critical", per_s=0.8, mean_s=0.3, timeout_s=30,
         expected_s=0.3, counts=("approvals",), steps=("check", "book")),
)  # fmt: skip
SERVICES = ("payments", "warehouse", "smtp")
#: What stays at 0 but for the story.
QUIET = frozenset(
    {"fences_total", "fenced", "draining", "stopping", "illegal_transitions_total"}
    | {"late_results_total"}
    | {"tasks_quarantined_total", "restart_halted", "types_held", "unreaped", "cancel_overdue"}
    | {"kills_total", "stops_total", "autopsies_total", "autopsy_duration_seconds"}
    | {"zombies", "zombies_detected_total", "crashes_total", "left_behind_total", "queue_paused"}
    | {"loop_errors_total", "store_errors_total", "worker_spawn_failures_total"}
    | {"label_values_dropped_total", "otel_export_failures_total", "cancel_latency_seconds"}
    | {"worker_exits_total", "worker_spawns_total", "calls_total"}
    | {"cancel_requests_total", "tasks_dead_total", "tasks_retried_total", "task_error_codes_total"}
)


def label_sets(metric: Metric) -> Iterator[dict[str, str]]:
    """Yield the label sets that a node of the story makes of a metric."""
    names = list(metric.labels)
    if not {"queue", "type"} & set(names):
        own = [_closed(metric, name) for name in names]
        yield from (dict(zip(names, values, strict=True)) for values in itertools.product(*own))
        return
    told = {"name": "counts", "code": "codes", "step": "steps"}
    seen: set[Labels] = set()
    for each in TYPES:
        ours = {"queue": (each.queue,), "type": (each.name,)}
        ours |= {label: getattr(each, told[label]) for label in names if label in told}
        own = [ours.get(name) or _closed(metric, name) for name in names]
        for values in itertools.product(*own):
            made = dict(zip(names, values, strict=True))
            if labels_of(made) not in seen:
                seen.add(labels_of(made))
                yield made


def _closed(metric: Metric, label: str) -> Sequence[str]:
    known = {
        "service": SERVICES,
        "slot": tuple(str(slot) for slot in range(SLOTS)),
        "version": ("0.1.0",),
        "python_version": ("3.11.2",),
    }
    values = metric.labels[label]
    return known.get(label, ("some",)) if values == OPEN else values


@dataclass(slots=True, eq=False)
class Node:
    """What a node exposes, moved on step by step. Names are without the prefix."""

    instance: str
    dice: random.Random
    values: dict[str, dict[Labels, float]] = field(default_factory=dict)
    #: Counts of each bucket, then of +Inf, then the sum.
    buckets: dict[str, dict[Labels, list[float]]] = field(default_factory=dict)
    touched: set[str] = field(default_factory=lambda: set(QUIET))

    def start(self) -> None:
        """Begin anew: all label sets, all at 0."""
        for metric in CATALOG.values():
            sets = [labels_of(one) for one in label_sets(metric)]
            if metric.kind == HISTOGRAM:
                size = len(metric.buckets) + 2
                self.buckets[metric.name] = {labels: [0.0] * size for labels in sets}
            else:
                self.values[metric.name] = dict.fromkeys(sets, 0.0)

    def add(self, name: str, amount: float = 1, /, **labels: str) -> None:
        """Count."""
        self.touched.add(name)
        self.values[name][labels_of(labels)] += amount

    def set(self, name: str, value: float, /, **labels: str) -> None:
        """Set a gauge."""
        self.touched.add(name)
        self.values[name][labels_of(labels)] = value

    def observe(self, name: str, value: float, times: float = 1, /, **labels: str) -> None:
        """Count an observation, or several alike."""
        self.touched.add(name)
        into = self.buckets[name][labels_of(labels)]
        into[bisect_left(CATALOG[name].buckets, value)] += times
        into[-1] += value * times

    def move_the_rest(self) -> None:
        """Move what nobody has spoken of."""
        for metric in CATALOG.values():
            if metric.name in self.touched:
                continue
            for labels in self.values.get(metric.name, ()):
                drawn = self.dice.random()
                before = self.values[metric.name][labels]
                moved = before + drawn if metric.kind == COUNTER else 1 + drawn
                self.values[metric.name][labels] = moved
            for into in self.buckets.get(metric.name, {}).values():
                middle = metric.buckets[len(metric.buckets) // 2]
                into[len(metric.buckets) // 2] += 1
                into[-1] += middle

    def expose(self, into: Samples, index: int) -> None:
        """Write a sample of everything."""
        target = {"instance": self.instance, "job": "supervisor"}
        for name, series in self.values.items():
            for labels, value in series.items():
                into.of(PREFIX + name, labels_of({**dict(labels), **target}))[index] = value
        for name, histograms in self.buckets.items():
            for labels, counts in histograms.items():
                self._expose(into, index, name, {**dict(labels), **target}, counts)
        took = 0.02 + 0.01 * self.dice.random()
        of_target = {"up": 1, "scrape_duration_seconds": took, "scrape_samples_scraped": 1200}
        for name, value in of_target.items():
            into.of(name, labels_of(target))[index] = value

    def _expose(
        self, into: Samples, index: int, name: str, labels: Mapping[str, str], counts: list[float]
    ) -> None:
        edges = [*(f"{edge:g}" for edge in CATALOG[name].buckets), "+Inf"]
        below = 0.0
        for edge, count in zip(edges, counts, strict=False):
            below += count
            series = into.of(f"{PREFIX}{name}_bucket", labels_of({**labels, "le": edge}))
            series[index] = below
        into.of(f"{PREFIX}{name}_count", labels_of(labels))[index] = below
        into.of(f"{PREFIX}{name}_sum", labels_of(labels))[index] = counts[-1]


class Story:
    """Two nodes on one store. `at` is how much of the span has gone, 0 to 1."""

    def __init__(self, span: Span, seed: int = 7) -> None:
        self.span = span
        self.dice = random.Random(seed)
        self.nodes = [Node(instance, self.dice) for instance in NODES]
        self.waiting = dict.fromkeys(TYPES, 0.0)
        self.levels: dict[str, int] = {}
        self.at = 0.0

    def run(self) -> Samples:
        """Return the whole history."""
        made = Samples(self.span)
        times = self.span.times
        for index, now in enumerate(times):
            self.at = index / (len(times) - 1)
            self._turn(index, now)
            for node in self.nodes:
                node.expose(made, index)
        return made

    def _turn(self, index: int, now: int) -> None:
        for node, starts in zip(self.nodes, (int(0.7 * len(self.span.times)), 0), strict=True):
            if index in (0, starts):
                node.start()
                self._begin(node, now)
        for each in TYPES:
            self._work(each)
        self._queues()
        for slot, node in enumerate(self.nodes):
            self._live(node, now, slot)
            self._call(node)
        self._trouble()
        for node in self.nodes:
            node.move_the_rest()

    def _is(self, begin: float, end: float) -> bool:
        return begin <= self.at < end

    def _everywhere(self, name: str, value: float, **labels: str) -> None:
        """Set what all nodes say alike of the store."""
        for node in self.nodes:
            node.set(name, value, **labels)

    def _begin(self, node: Node, now: int) -> None:
        node.set("build_info", 1, version="0.1.0", python_version="3.11.2")
        node.set("start_time_seconds", now)
        node.set("config_last_reload_successful", 1)
        node.set("config_last_reload_success_timestamp_seconds", now)
        node.add("worker_spawns_total", SLOTS, reason="initial")
        for each in TYPES:
            node.set("task_timeout_seconds", each.timeout_s, type=each.name)
            node.set("task_expected_duration_seconds", each.expected_s, type=each.name)
            node.set("task_memory_limit_bytes", 2**30, type=each.name)

    # ── What is asked for and done ──

    def _work(self, type: Type) -> None:
        step = self.span.step_s
        day = 1 + 0.25 * math.sin(self.at * 2 * math.pi)
        growing = type.queue == "bulk" and (self._is(0.08, 0.2) or self._is(0.8, 1.1))
        room = type.per_s * step * (0.7 if growing else 1.6) * (0.2 if self._is(0.56, 0.57) else 1)
        self.waiting[type] += self._poisson(type.per_s * step * day)
        done = min(self.waiting[type], self._poisson(room))
        self.waiting[type] -= done
        slow = 3.0 if type.name == "export_report" and self._is(0.74, 1.1) else 1.0
        self._end(type, int(done), slow)
        both = {"queue": type.queue, "type": type.name}
        usual = max(1, round(min(type.per_s * type.mean_s * slow, 4.0)))
        running = usual + self._wander(f"running {type.name}", 2) - 1 if done else usual
        self._everywhere("in_queue", int(self.waiting[type]), **both)
        self._everywhere("scheduled", self._wander(f"scheduled {type.name}", 4), **both)
        self._everywhere("running", running, **both)
        for node in self.nodes:
            self._oldest(node, type, running, slow)

    def _oldest(self, node: Node, type: Type, running: int, slow: float) -> None:
        part = 0.4 + 0.1 * self._wander(f"age {node.instance} {type.name}", 15)
        age = part * type.mean_s * slow if running else 0.0
        stuck = type.name == "transcode" and self._is(0.6, 0.66) and node is self.nodes[0]
        age = 0.9 * type.timeout_s * ((self.at - 0.6) / 0.06) + age if stuck else age
        node.set("running_oldest_age_seconds", age, type=type.name)
        node.set("running_timeout_used_ratio", age / type.timeout_s, type=type.name)
        reports = type.mean_s > 10 and running
        since = age if stuck else min(age, 4.0)
        node.set("running_since_progress_seconds", since if reports else 0.0, type=type.name)
        fds = 12 + self._wander(f"{node.instance} {type.name}", 8) if running else 0
        node.set("task_open_fds", fds, type=type.name)
        mib = 60 + self._wander(f"memory {node.instance} {type.name}", 40) if running else 0
        node.set("running_memory_bytes", mib * 2**20, type=type.name)

    def _end(self, type: Type, done: int, slow: float) -> None:
        shown = min(done, 30)
        for _ in range(shown):
            node = self.dice.choice(self.nodes)
            took = self.dice.lognormvariate(math.log(type.mean_s * slow) - 0.12, 0.5)
            outcome = self._outcome(type, took)
            took = type.timeout_s if outcome == "timeout" else took
            self._count(node, type, outcome, took, done / shown)
        if self.dice.random() < 0.02:
            node = self.dice.choice(self.nodes)
            node.add("tasks_finished_total", outcome="requeued", queue=type.queue, type=type.name)

    def _outcome(self, type: Type, took: float) -> str:
        drawn = self.dice.random()
        failing = 0.18 if type.name == "approve_payment" and self._is(0.3, 0.4) else 0.012
        storm = 0.5 if type.name == "export_report" and self._is(0.45, 0.55) else 0.015
        if drawn < storm:
            return "canceled"
        if took >= type.timeout_s:
            return "timeout"
        return "failed" if drawn > 1 - failing else "success"

    def _count(self, node: Node, type: Type, outcome: str, took: float, times: float) -> None:
        of, both = {"type": type.name}, {"queue": type.queue, "type": type.name}
        node.add("tasks_started_total", times, **both)
        node.add("tasks_finished_total", times, **both, outcome=outcome)
        if outcome in EXECUTED:
            node.observe("running_duration_seconds", took, times, **of, outcome=outcome)
            node.observe("timeout_used_ratio", took / type.timeout_s, times, **of)
        behind = self.waiting[type] / max(type.per_s, 0.01)
        node.observe(
            "queue_wait_seconds", behind * self.dice.random() + 0.004, times, queue=type.queue
        )
        if outcome in ("failed", "timeout"):
            again = self.dice.random() < 0.7
            if again:
                node.add("tasks_retried_total", times, **of)
            else:
                node.add("tasks_dead_total", times, **both)
            node.add("task_error_codes_total", times, **of, code=self.dice.choice(type.codes))
        if outcome == "canceled":
            self._cancel(node, type, times)
        self._cost(node, type, took, times)

    def _cancel(self, node: Node, type: Type, times: float) -> None:
        node.add("cancel_requests_total", times, type=type.name)
        node.observe("cancel_latency_seconds", self.dice.expovariate(1.5), times)
        phase = self.dice.choices(("asked", "interrupted", "killed"), (6, 3, 0.4))[0]
        node.add("stops_total", times, phase=phase)
        if phase == "killed":
            node.add("kills_total", times, verdict="canceled")

    def _cost(self, node: Node, type: Type, took: float, times: float) -> None:
        of = {"type": type.name}
        node.add("task_cpu_seconds_total", 0.4 * took * times, **of, mode="user")
        node.add("task_cpu_seconds_total", 0.06 * took * times, **of, mode="system")
        for direction, size in (("read", 4e5), ("written", 1e5)):
            node.add("task_io_bytes_total", size * took * times, **of, direction=direction)
        for direction, size in (("received", 9e4), ("sent", 2e4)):
            node.add("task_network_bytes_total", size * took * times, **of, direction=direction)
        memory = (60 + 3 * type.mean_s) * 1e6 * self.dice.uniform(0.9, 1.2)
        node.observe("task_max_rss_bytes", memory, times, **of)
        for place, name in enumerate(type.counts):
            node.add("task_counts_total", times * (40 >> place), **of, name=name)
        for place, step in enumerate(type.steps):
            share = (0.3, 0.6)[place] * self.dice.uniform(0.7, 1.3)
            node.observe("task_step_duration_seconds", took * share, times, **of, step=step)

    def _queues(self) -> None:
        for queue in sorted({one.queue for one in TYPES}):
            of = [one for one in TYPES if one.queue == queue]
            age = max(self.waiting[one] / one.per_s for one in of)
            self._everywhere("queue_oldest_age_seconds", age if age > 2 else 0.0, queue=queue)
            paused = queue == "default" and self._is(0.25, 0.28)
            self._everywhere("queue_paused", float(paused), queue=queue)
        self._everywhere("outbox_pending", self._wander("outbox", 6))
        for each in TYPES:
            told = {"type": each.name}
            self._everywhere("running_duration_p99_seconds", 2.4 * each.mean_s, **told)
            self._everywhere("failed_rate", 0.012, **told)
            self._everywhere("canceled_rate", 0.015, **told)

    # ── How the nodes live ──

    def _live(self, node: Node, now: int, place: int) -> None:
        dead = 1 if self._is(0.6, 0.66) and place == 0 else 0
        busy = min(SLOTS - dead, self._wander(f"busy {place}", SLOTS))
        for state, count in (("busy", busy), ("idle", SLOTS - dead - busy), ("starting", dead),
                             ("stopping", 0)):  # fmt: skip
            node.set("workers", count, state=state)
        node.set("workers_desired", SLOTS)
        node.set("workers_alive", SLOTS - dead)
        for slot in range(SLOTS):
            self._slot(node, slot, bool(dead) and slot == 0)
        if self.dice.random() < 0.06:
            node.add("worker_exits_total", reason="recycled")
            node.add("worker_spawns_total", reason="recycle")
        node.observe("worker_spawn_duration_seconds", self.dice.uniform(0.02, 0.09))
        node.set("loop_last_tick_timestamp_seconds", now - self.dice.random() * 0.05)
        for _ in range(6):
            node.observe("loop_lag_seconds", self.dice.expovariate(800), 50)
            node.observe("store_commit_duration_seconds", self.dice.expovariate(300), 20)
        fenced = place == 1 and self._is(0.56, 0.575)
        node.set("store_up", float(not fenced))
        node.set("bell_up", float(not self._is(0.36, 0.38)))
        node.set("fenced", float(fenced))
        node.set("sweeper_leading", float(place == (1 if self._is(0.2, 0.56) else 0)))
        node.set("clock_skew_seconds", 0.004 + place * 0.3 * self.at + 0.01 * self.dice.random())
        node.add("claims_tried_total", 40)
        node.add("claims_missed_total", int(self.dice.random() < 0.3))
        node.add("store_conflicts_total", int(self.dice.random() < 0.2))
        self._collect(node)

    def _slot(self, node: Node, slot: int, is_silent: bool) -> None:
        of = {"slot": str(slot)}
        silent_s = min(150.0, (self.at - 0.6) * (self.span.end - self.span.start))
        node.set(
            "worker_heartbeat_age_seconds", self.dice.uniform(0, 1) + is_silent * silent_s, **of
        )
        node.add("worker_cpu_seconds_total", self.span.step_s * self.dice.uniform(0.1, 0.6), **of)
        grown = 4e8 * (self.at * 4 % 1) if slot == 1 else 0.0
        node.set("worker_resident_memory_bytes", 9e7 + 2e7 * self.dice.random() + grown, **of)
        fds = 18 + self._wander(f"fds {node.instance} {slot}", 12)
        node.set("worker_open_fds", fds, **of)

    def _collect(self, node: Node) -> None:
        for one in label_sets(CATALOG["collector_success"]):
            node.set("collector_success", 1, **one)
            node.set("collector_duration_seconds", self.dice.uniform(0.001, 0.006), **one)

    def _call(self, node: Node) -> None:
        for place, service in enumerate(SERVICES):
            bad = service == "payments" and self._is(0.84, 1.1)
            for _ in range(8):
                took = self.dice.lognormvariate(-2.5 + place * 0.5 + 2.6 * bad, 0.6)
                node.observe("call_duration_seconds", took, 3, service=service)
                failed = self.dice.random() < (0.2 if bad else 0.004)
                outcome = "error" if failed else "ok"
                node.add("calls_total", 3, service=service, outcome=outcome)
            flying = self._wander(f"{node.instance} {service}", 2) + 3 * bad
            node.set("call_in_flight", flying, service=service)

    # ── What goes wrong ──

    def _trouble(self) -> None:
        first, second = self.nodes
        stalled = 2.0 if self._is(0.6, 0.66) else 0.0
        if stalled and not first.values["zombies"][labels_of({"kind": "stalled"})]:
            first.add("zombies_detected_total", stalled, kind="stalled")
            first.add("zombies_detected_total", kind="heartbeat_lost")
        first.set("zombies", stalled, kind="stalled")
        first.set("zombies", stalled / 2, kind="heartbeat_lost")
        self._everywhere("zombies", float(self._is(0.62, 0.64)), kind="lost")
        if self.dice.random() < (0.5 if stalled else 0.04):
            self._autopsy(first, self.dice.choice(("stalled", "heartbeat_lost", "timeout")))
        if self.dice.random() < 0.03:
            self._autopsy(second, "timeout")
        if self._is(0.56, 0.575):
            second.add("fences_total", int(self.dice.random() < 0.3))
            second.add("store_errors_total", 2)
            second.add("kills_total", int(self.dice.random() < 0.2), verdict="fenced")
        if self.dice.random() < 0.02:
            first.add("label_values_dropped_total", label="type")
            first.add("left_behind_total", kind="fd")
            first.add("late_results_total", type="sync_orders")
            second.add("otel_export_failures_total", signal="traces")

    def _autopsy(self, node: Node, verdict: str) -> None:
        status = self.dice.choices(("complete", "partial", "failed", "busy"), (20, 4, 1, 1))[0]
        node.add("autopsies_total", status=status)
        node.observe("autopsy_duration_seconds", self.dice.lognormvariate(-0.3, 0.5))
        node.add("kills_total", verdict=verdict)
        node.add("stops_total", phase="killed")
        node.add("worker_exits_total", reason="killed")
        node.add("worker_spawns_total", reason="replace")
        node.add("crashes_total", reason=next(iter(CATALOG["crashes_total"].labels["reason"])))

    def _wander(self, what: str, most: int) -> int:
        """Return a number from 0 to `most` that seldom moves, and then by one."""
        before = self.levels.get(what, most // 2)
        moved = before + self.dice.choice((-1, 0, 0, 0, 0, 0, 0, 1))
        self.levels[what] = min(most, max(0, moved))
        return self.levels[what]

    def _poisson(self, mean: float) -> int:
        if mean > 30:
            return max(0, round(self.dice.gauss(mean, math.sqrt(mean))))
        limit, drawn, count = math.exp(-mean), self.dice.random(), 0
        while drawn > limit:
            drawn *= self.dice.random()
            count += 1
        return count


def history(hours: float = 1, step_s: int = 30, seed: int = 7) -> Samples:
    """Return the history of the hours before END."""
    return Story(Span(END - int(hours * 3600), END, step_s), seed).run()
