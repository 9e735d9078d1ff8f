"""The demo itself: raise the curtain, give the cues, look on, and sum up when it is over.

Secret kept here: what happens when. Looks at tasks through the reader as any client would; the two
cues (a cancel by an operator, the SIGKILL of a worker) come once their task runs.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from types import FrameType

from supervisor.clock import SystemClock
from supervisor.demo import tasks, view
from supervisor.demo.cast import CANCEL, CAST, KILL, OPERATOR, Part
from supervisor.demo.scene import Ending, Scene
from supervisor.demo.stage import Stage
from supervisor.model.states import ENDED, State
from supervisor.settings import Settings
from supervisor.store.view import TaskFilter, TaskLine
from supervisor.worker import tree

#: How often the page looks at the store.
LOOK_EVERY_S = 0.25
#: A task must have run this long before its cue, so that people see it run.
CUE_AFTER_S = 1.0
#: Once all has ended a healthy task now and then keeps the page and the metrics moving.
ENCORE_EVERY_S = 2.0
BATCH = 500


class Show:
    """One demo from start to exit code."""

    def __init__(self, for_s: float | None, *, as_json: bool, settings: Settings) -> None:
        self._for_s = for_s
        self._for_people = not as_json
        self._clock = SystemClock()
        self._stage = Stage(settings, self._clock)
        self._page = view.page_for(as_json=as_json, stage=self._stage, for_s=for_s)
        self._began = self._clock.mono()
        self._parts: dict[str, Part] = {}
        self._cued: dict[str, datetime] = {}
        self._lines: dict[str, TaskLine] = {}
        self._usage: dict[str, Mapping[str, float]] = {}
        self._encore_at = 0.0

    def run(self) -> int:
        """Play until the time is up or somebody interrupts; 0 when nothing is left behind."""
        signal.signal(signal.SIGTERM, interrupt)
        try:
            with self._page:
                self._play()
            ending = self._end()
        finally:
            self._stage.stop()
            self._stage.close()
        self._page.sum_up(ending)
        return 0 if ending.clean else 1

    def _play(self) -> None:
        self._submit()
        self._stage.start(with_pages=self._for_people)
        try:
            while self._for_s is None or self._age() < self._for_s:
                self._stage.check_alive()
                scene = self._look()
                self._give_cues(scene)
                self._page.show(scene)
                if self._for_s is None and scene.played:
                    self._encore()
                self._clock.sleep(self._pause())
        except KeyboardInterrupt:
            pass  # the ordinary end of a demo that has no --for

    def _end(self) -> Ending:
        in_order = self._stage.stop()
        last = self._look()
        leftovers = tuple(self._stage.leftovers())
        return Ending(last, leftovers, in_order, self._age())

    def _age(self) -> float:
        return self._clock.mono() - self._began

    def _pause(self) -> float:
        if self._for_s is None:
            return LOOK_EVERY_S
        return max(0.0, min(LOOK_EVERY_S, self._for_s - self._age()))

    # --- what is done -------------------------------------------------------------------------

    def _submit(self) -> None:
        now = self._clock.now()
        for part in CAST:
            spec = {"type": part.type, "priority": part.priority, "submitted_by": OPERATOR}
            if part.delay_s:
                spec["run_after"] = now + timedelta(seconds=part.delay_s)
            if part.dedup_key:
                spec["dedup_key"] = part.dedup_key
            checked = [tasks.app.checked({**spec, "params": params}) for params in part.params]
            for handle in self._stage.client.submit(checked):
                self._parts[handle.task_id] = part

    def _encore(self) -> None:
        if self._age() >= self._encore_at:
            self._encore_at = self._age() + ENCORE_EVERY_S
            spec = {"type": "send_mail", "params": {"to": "encore@example.org"}}
            self._stage.client.submit([tasks.app.checked(spec)])

    def _give_cues(self, scene: Scene) -> None:
        now = self._clock.now()
        for part in CAST:
            for line in scene.of_part[part.name] if part.cue else ():
                started = line.state is State.RUNNING and line.started_at
                if not started or line.task_id in self._cued:
                    continue
                if (now - started).total_seconds() >= CUE_AFTER_S:
                    self._cued[line.task_id] = now
                    self._cue(part, line)

    def _cue(self, part: Part, line: TaskLine) -> None:
        if part.cue == CANCEL:
            self._stage.client.cancel(line.task_id, by=OPERATOR, reason="not needed any more")
        if part.cue == KILL:
            for worker in self._stage.client.reader.workers(line.node_id):
                if worker.worker_id == line.worker_id:
                    tree.send_signal(worker.pid, signal.SIGKILL, born=worker.start_ticks)

    # --- what is seen -------------------------------------------------------------------------

    def _look(self) -> Scene:
        reader = self._stage.client.reader
        for line in reader.tasks(TaskFilter(limit=BATCH)).tasks:
            if line.task_id in self._parts:
                self._lines[line.task_id] = line  # kept when encores push it off the page
                self._learn_usage(line)
        of_part: dict[str, list[TaskLine]] = {part.name: [] for part in CAST}
        for task_id in sorted(self._lines):
            of_part[self._parts[task_id].name].append(self._lines[task_id])
        return Scene(
            age_s=self._age(),
            at=self._clock.now(),
            of_part={name: tuple(lines) for name, lines in of_part.items()},
            cued=dict(self._cued),
            usage=dict(self._usage),
            autopsies=tuple(reversed(reader.autopsies())),
            counts=reader.counts(self._clock.now()).by_state,
            metrics_url=self._stage.metrics_url,
            pages_url=self._stage.pages_url,
        )

    def _learn_usage(self, line: TaskLine) -> None:
        if line.state in ENDED and line.task_id not in self._usage:
            attempts = self._stage.client.reader.attempts(line.task_id)
            self._usage[line.task_id] = attempts[-1].usage if attempts else {}


def interrupt(_number: int, _frame: FrameType | None) -> None:
    """End a demo that gets a SIGTERM as Ctrl-C does."""
    sys.stderr.flush()
    raise KeyboardInterrupt
