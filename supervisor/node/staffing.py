"""How many workers there are: births, replacement, rolling over to new code, and crash loops.

Secret kept here: generations. A reload boots the app anew beside the old one; workers of the old
generation are dismissed only once the new ones are ready, and a broken app changes nothing.
"""

from __future__ import annotations

import itertools

from supervisor.model.spawning import Intensity
from supervisor.model.spec import DEFAULT_QUEUE
from supervisor.model.termination import Phase
from supervisor.node import port
from supervisor.node.closing import Closing
from supervisor.node.floor import Floor, Slot
from supervisor.node.holding import Holding
from supervisor.settings import TaskOptions
from supervisor.telemetry.events import emit

#: A worker that survives SIGKILL this long (uninterruptible wait) no longer counts as capacity.
LOST_AFTER_S = 5.0


class Staffing:
    """Keeps the number of workers right."""

    def __init__(self, floor: Floor, closing: Closing, app: str) -> None:
        self._floor = floor
        self._closing = closing
        self._app = app
        rate = floor.settings.restart_intensity
        self._intensity = Intensity(deaths=rate.limit, window_s=rate.window_s)
        self._holding = Holding(floor, self._intensity)
        self._births = 0
        self._halted = False
        self._reason = "initial"
        self._zygote_asked = False
        self._zygote_lives = False
        self._again = False

    def boot(self) -> None:
        """Import the app for the first time."""
        self._zygote_asked = True
        self._floor.pool.boot(self._floor.generation)

    def reload(self) -> None:
        """Import the app anew; the running workers go on meanwhile."""
        if self._zygote_asked:
            self._again = True  # one is on its way and may have read the old code already
            return
        self._floor.generation += 1
        self.boot()

    def booted(self, event: port.AppBooted) -> None:
        """The app is imported: learn its types, and start replacing older workers."""
        floor = self._floor
        self._zygote_asked, self._zygote_lives = False, True
        if event.generation < floor.booted_generation:
            return
        if event.generation > floor.booted_generation > 0:
            self._reason = "reload"
        floor.booted_generation = event.generation
        floor.learn(event.generation, event.types)
        floor.options = {info.name: TaskOptions(**info.options) for info in event.types}  # type: ignore[arg-type]
        floor.metrics.allow("type", floor.types)
        floor.know_queues(one.queue or DEFAULT_QUEUE for one in floor.options.values())
        self.show_limits()
        for info in event.types:
            floor.metrics.account.declare(info.name, info.words)
        floor.tell_types()
        emit("app.booted", app=self._app, types=sorted(floor.types))
        if event.obstacles:
            emit("app.unforkable", app=self._app, obstacles=list(event.obstacles))
        if self._again:
            self._again = False
            self.reload()

    def show_limits(self) -> None:
        """Show what each type may take and means to take."""
        floor = self._floor
        for name in floor.types:
            options = floor.options.get(name)
            queue = (options.queue if options else None) or DEFAULT_QUEUE
            limits = floor.settings.for_task(name, queue, options)
            floor.metrics.set("task_timeout_seconds", limits.timeout, type=name)
            memory_bytes = limits.memory_limit_bytes or 0
            floor.metrics.set("task_memory_limit_bytes", memory_bytes, type=name)
            expected_s = options.expected_duration if options else None
            floor.metrics.set("task_expected_duration_seconds", expected_s or 0.0, type=name)

    def refused(self, event: port.AppRefused) -> None:
        """The app cannot be imported: fatal at the start, without effect at a reload."""
        floor = self._floor
        self._zygote_asked = False
        follows = "the old app goes on"
        if floor.booted_generation == 0:
            floor.fatal, floor.remedy = event.error, event.remedy
            follows = "the node stops"
        elif self._zygote_lives:
            floor.generation = floor.booted_generation
        else:
            follows = "workers go on with the old app, new ones wait until it can be imported"
        emit("app.refused", app=self._app, error=event.error, follows=follows)

    def zygote_lost(self, event: port.ZygoteLost, now: float) -> None:
        """The zygote died: boot another before the next birth, and not in a storm."""
        emit("spawn.failed", error=f"the zygote ended: {event.how}")
        self._note_death(0.0, now)
        self._zygote_asked = self._zygote_lives = False
        self._floor.generation = self._floor.booted_generation + 1

    def spawn(self, now: float) -> None:
        """Ask for as many workers as are missing, unless a crash loop has halted births."""
        floor = self._floor
        self._holding.release(now)
        if floor.stopping is not None or floor.fenced or self._is_halted(now):
            return
        if floor.booted_generation < floor.generation and not self._zygote_asked:
            self.boot()
        if not self._zygote_lives:
            return
        self._retire_old()
        staff = [s for s in floor.slots.values() if self._counts(s, now)]
        taken = {slot.number for slot in staff}
        free = (number for number in itertools.count() if number not in taken)
        for _ in range(floor.settings.workers - len(staff)):
            self._birth(now, next(free))
        if len(staff) >= floor.settings.workers:
            self._reason = "replace"

    def _counts(self, slot: Slot, now: float) -> bool:
        if slot.generation != self._floor.booted_generation or slot.leaving:
            return False
        farewell = slot.farewell
        if farewell is None:
            return True
        return farewell.phase is not Phase.KILL or now - farewell.since < LOST_AFTER_S

    def _birth(self, now: float, number: int) -> None:
        floor = self._floor
        self._births += 1
        worker_id = f"{floor.node_id}-w{self._births}"
        generation = floor.booted_generation
        floor.slots[worker_id] = Slot(worker_id, generation, self._reason, now, number)
        floor.pool.birth(worker_id, generation)

    def _retire_old(self) -> None:
        floor = self._floor
        current = floor.booted_generation
        old = [s for s in floor.slots.values() if s.generation < current and s.farewell is None]
        ready = [s for s in floor.slots.values() if s.generation == current and s.can_take_work]
        for slot in old:
            slot.retiring = bool(ready)
        if len(ready) >= floor.settings.workers:
            for slot in old:
                if not slot.attempts:
                    self._closing.dismiss(slot, floor.clock.mono())

    def born(self, slot: Slot, pid: int) -> None:
        """A worker process exists."""
        slot.pid = pid
        self._floor.metrics.inc("worker_spawns_total", reason=slot.reason)
        emit("worker.spawned", worker_id=slot.worker_id, pid=pid, reason=slot.reason)

    def birth_failed(self, slot: Slot, why: str, now: float) -> None:
        """A worker could not be made."""
        self._floor.slots.pop(slot.worker_id, None)
        self._floor.metrics.inc("worker_spawn_failures_total")
        emit("spawn.failed", error=why)
        self._note_death(0.0, now)

    def died(self, slot: Slot, exit: port.Exited, now: float) -> None:
        """A worker was reaped: one that died in a body tells of that type, not of the workers."""
        if slot.ready_at is None and slot.farewell is None:
            self._floor.metrics.inc("worker_spawn_failures_total")
        if slot.farewell is not None or slot.leaving or self._floor.fenced:
            return  # somebody asked for it
        attempt = slot.attempts.get(exit.last.seq)
        if attempt is not None:
            self._holding.died(attempt.claim.type, now)
        else:
            self._note_death(now - (slot.ready_at or now), now)

    def _note_death(self, lived_s: float, now: float) -> None:
        self._intensity = self._intensity.died(lived_s, now)
        if self._intensity.is_halted(now) and not self._halted:
            self._halted = True
            emit(
                "restart.halted",
                failures=self._intensity.deaths + 1, window_s=self._intensity.window_s,
            )  # fmt: skip

    def _is_halted(self, now: float) -> bool:
        if self._halted and not self._intensity.is_halted(now):
            self._halted = False
            emit("restart.resumed", reason="the wait is over: one more try")
        self._floor.metrics.set("restart_halted", float(self._halted))
        return self._halted

    @property
    def halted(self) -> bool:
        """Whether births wait because too many workers died early."""
        return self._halted
