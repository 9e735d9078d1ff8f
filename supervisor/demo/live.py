"""`supervisor demo --live`: a shop that keeps working, for who wants to see pages and charts live.

Secret kept here: how the plan is carried out. It submits and steps in as any client would, with
names and reasons; a task is stepped in on once it has run for a second, so that people see it run.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta
from random import Random

from supervisor.clock import SystemClock
from supervisor.demo import live_view, shop
from supervisor.demo.live_view import Sight
from supervisor.demo.plan import (
    CANCEL,
    FREEZE,
    KILL,
    MOST_WAITING,
    PAUSE,
    RERUN,
    Act,
    Plan,
    Stream,
)
from supervisor.demo.show import CUE_AFTER_S, LOOK_EVERY_S, interrupt
from supervisor.demo.stage import Leftover, Stage
from supervisor.model.spec import TaskSpec
from supervisor.model.states import State
from supervisor.settings import Settings
from supervisor.store.view import TaskFilter, TaskLine
from supervisor.worker import tree

APP = "supervisor.demo.shop:app"
#: As long as the node's alerts and people need to see a stuck task, and no longer.
LIMITS = {
    "timeout": "25",
    "retry_base": "1",
    "heartbeat_interval": "2",
    "heartbeat_misses": "4",
}
SIGNALS = {KILL: signal.SIGKILL, FREEZE: signal.SIGSTOP}
PAGE_EVERY_S = 1.0
NEWS_KEPT = 8
RERUN_AT_ONCE = 2


class Live:
    """One live demo from start to exit code."""

    def __init__(self, for_s: float | None, *, as_json: bool, settings: Settings) -> None:
        self._for_s = for_s
        self._with_pages = not as_json
        self._clock = SystemClock()
        self._stage = Stage(settings, self._clock, app=APP, limits=LIMITS)
        self._client = self._stage.client
        self._page = live_view.page_for(as_json=as_json, stage=self._stage, for_s=for_s)
        self._plan = Plan()
        self._dice = Random(11)
        self._began = self._clock.mono()
        self._news: deque[tuple[float, str]] = deque(maxlen=NEWS_KEPT)
        self._open: dict[Act, None] = {}
        self._waiting = 0

    def run(self) -> int:
        """Work until the time is up or somebody interrupts; 0 when nothing is left behind."""
        signal.signal(signal.SIGTERM, interrupt)
        try:
            with self._page:
                self._work()
            in_order = self._stage.stop()
            last = self._look()
            left: tuple[Leftover, ...] = tuple(self._stage.leftovers())
        finally:
            self._stage.stop()
            self._stage.close()
        self._page.sum_up(last, left, in_order=in_order)
        return 0 if in_order and not left else 1

    def _work(self) -> None:
        self._submit(list(self._plan.due(0.0)))  # makes the store before anybody looks
        self._stage.start(with_pages=self._with_pages)
        page_at = 0.0
        try:
            while self._for_s is None or self._age() < self._for_s:
                self._stage.check_alive()
                due = list(self._plan.due(self._age()))
                self._submit(due)
                self._step_in(act for act in due if isinstance(act, Act))
                if self._age() >= page_at:
                    page_at = self._age() + PAGE_EVERY_S
                    self._page.show(self._look())
                self._clock.sleep(LOOK_EVERY_S)
        except KeyboardInterrupt:
            pass  # the ordinary end of a demo that has no --for

    def _age(self) -> float:
        return self._clock.mono() - self._began

    # --- what is submitted --------------------------------------------------------------------

    def _submit(self, due: list[Stream | Act]) -> None:
        if self._waiting > MOST_WAITING:
            return
        specs = [spec for one in due if isinstance(one, Stream) for spec in self._specs(one)]
        if specs:
            self._client.submit(specs)

    def _specs(self, stream: Stream) -> list[TaskSpec]:
        specs: list[TaskSpec] = []
        for _ in range(stream.several):
            spec = {
                "type": stream.type,
                "params": stream.params(self._plan.dice),
                "priority": stream.priority,
                "submitted_by": stream.by,
                "tags": list(stream.tags),
            }
            if stream.delay_s:
                spec["run_after"] = self._now(stream.delay_s)
            twice = bool(stream.doubled) and self._plan.dice.randrange(stream.doubled) == 0
            if twice:
                spec["dedup_key"] = f"{stream.type}:{self._plan.dice.randrange(10**9)}"
            specs += [shop.app.checked(spec)] * (2 if twice else 1)
        return specs

    # --- how people step in -------------------------------------------------------------------

    def _step_in(self, due: Iterable[Act]) -> None:
        """Do what is due; what finds no task to do it to stays due."""
        self._open |= dict.fromkeys(due)
        for act in list(self._open):
            told = self._done(act)
            if told:
                self._news.append((self._age(), f"{act.by}: {act.kind} {told}: {act.reason}"))
            if told or act.kind not in (CANCEL, *SIGNALS):
                del self._open[act]

    def _done(self, act: Act) -> str:
        """Return what it was done to; nothing if that is not there now."""
        if act.kind in SIGNALS:
            return self._signal(act)
        if act.kind in (CANCEL, RERUN):
            return self._to_tasks(act)
        verb = self._client.pause if act.kind == PAUSE else self._client.resume
        return f"queue {act.about}" if verb(act.about, by=act.by, reason=act.reason) else ""

    def _signal(self, act: Act) -> str:
        chosen = self._one_that_runs(act.about)
        for worker in self._client.reader.workers(chosen.node_id) if chosen else ():
            if chosen and worker.worker_id == chosen.worker_id:
                tree.send_signal(worker.pid, SIGNALS[act.kind], born=worker.start_ticks)
                return f"worker {worker.pid}, which runs {act.about}"
        return ""

    def _to_tasks(self, act: Act) -> str:
        if act.kind == CANCEL:
            chosen = self._one_that_runs(act.about)
            ids = [chosen.task_id] if chosen else []
            answers = self._client.cancel(ids, by=act.by, reason=act.reason) if ids else []
        else:
            failed = self._tasks(act.about, State.FAILED)[:RERUN_AT_ONCE]
            ids = [line.task_id for line in failed]
            answers = self._client.rerun(ids, by=act.by, reason=act.reason) if ids else []
        return f"{act.about} {' '.join(ids)}" if any(one.done for one in answers) else ""

    def _one_that_runs(self, type_: str) -> TaskLine | None:
        """Return a task of this type that has run long enough and was not told to stop."""
        now = self._now(-CUE_AFTER_S)
        lines = [
            line
            for line in self._tasks(type_, State.RUNNING)
            if line.started_at is not None and line.started_at <= now and line.mark is None
        ]
        return self._dice.choice(lines) if lines else None

    def _tasks(self, type_: str, state: State) -> tuple[TaskLine, ...]:
        wanted = TaskFilter(states=(state,), types=(type_,))
        return self._client.reader.tasks(wanted).tasks

    # --- what is seen -------------------------------------------------------------------------

    def _look(self) -> Sight:
        reader, now = self._client.reader, self._now()
        counts = reader.counts(now)
        self._waiting = counts.in_queue
        return Sight(
            age_s=self._age(),
            counts=counts.by_state,
            queues=tuple(reader.queues(now)),
            autopsies=tuple(reader.autopsies(limit=NEWS_KEPT)),
            news=tuple(self._news),
            metrics_url=self._stage.metrics_url,
            pages_url=self._stage.pages_url,
        )

    def _now(self, ahead_s: float = 0.0) -> datetime:
        return self._clock.now() + timedelta(seconds=ahead_s)
