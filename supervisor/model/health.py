"""One verdict on one attempt, from all three probes together: pure, without clock or I/O.

`Pulse` folds what was seen into "unchanged since when"; `judge` compares that with the rules and
names one thing that is wrong. *Declared* limits (timeout, cancel grace, memory) always count;
*inferred* ones (heartbeat, stall, spin) are held while the observer is unreliable, since a starved
host makes every worker look dead. All times are monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

#: A share of one core that counts as "100 %", on average over a spin: a busy host takes a little.
SPIN_RATIO = 0.95
#: One look with less than this share is a pause, and ends the spin.
PAUSE_RATIO = 0.5
#: An own loop gap of this many seconds makes every inferred verdict doubtful.
GAP_S = 1.0
#: For this long after a gap the workers may still be catching up.
DOUBT_AFTER_GAP_S = 10.0
#: Shares of time (PSI avg10, percent) in which tasks waited for the resource.
CPU_PRESSURE, MEMORY_PRESSURE, IO_PRESSURE = 90.0, 40.0, 80.0


class Code(StrEnum):
    """What a verdict may say."""

    CANCELED = "canceled"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    STOPPED = "stopped"
    HEARTBEAT_LOST = "heartbeat_lost"
    STALLED = "stalled"
    CPU_SPIN = "cpu_spin"
    STARVED_HOST = "starved_host"


class Action(StrEnum):
    """What follows from a verdict, each including the one before."""

    ALERT = "alert"
    CAPTURE = "capture"
    KILL = "kill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What the probes saw of a worker at `at`. `proc_state` is the letter of proc(5)."""

    at: float
    beats: int
    ticks: int = 0
    progress_changes: int = 0
    progress_done: float = 0.0
    rss_bytes: int = 0
    cpu_s: float = 0.0
    proc_state: str = "S"
    open_fds: int = 0

    @property
    def is_stopped(self) -> bool:
        """Whether a signal or a tracer holds it."""
        return self.proc_state in ("T", "t")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """An attempt's signs over time: the last look, and since when each has not changed."""

    last: Signs
    beat_at: float
    progress_at: float
    spinning_since: float | None = None
    spin_cpu_s: float = 0.0
    stopped_since: float | None = None

    @classmethod
    def begin(cls, signs: Signs) -> Pulse:
        """Start with a first look: every clock of the attempt begins here (never before)."""
        since = signs.at if signs.is_stopped else None
        return cls(last=signs, beat_at=signs.at, progress_at=signs.at, stopped_since=since)

    def observe(self, signs: Signs) -> Pulse:
        """Fold in one more look. What has been let go on is not blamed for the time it stood."""
        spinning_since, spin_cpu_s = self._spin(signs)
        stood_s, stopped_since = 0.0, self.stopped_since
        if signs.is_stopped:
            stopped_since = signs.at if stopped_since is None else stopped_since
        elif stopped_since is not None:
            stood_s, stopped_since = signs.at - stopped_since, None
        progressed = signs.progress_changes != self.last.progress_changes
        return Pulse(
            last=signs,
            beat_at=signs.at if signs.beats != self.last.beats else self.beat_at + stood_s,
            progress_at=signs.at if progressed else self.progress_at + stood_s,
            spinning_since=spinning_since,
            spin_cpu_s=spin_cpu_s,
            stopped_since=stopped_since,
        )

    def _spin(self, signs: Signs) -> tuple[float | None, float]:
        """Return since when it spins and the CPU time it had used by then."""
        last, since = self.last, self.spinning_since
        span, used = signs.at - last.at, signs.cpu_s - last.cpu_s
        if span > 0 and used < PAUSE_RATIO * span:
            return None, 0.0
        if since is not None and signs.cpu_s - self.spin_cpu_s >= SPIN_RATIO * (signs.at - since):
            return since, self.spin_cpu_s
        return (last.at, last.cpu_s) if 0 < SPIN_RATIO * span <= used else (None, 0.0)

    def shifted(self, gap_s: float) -> Pulse:
        """Move all clocks by a time in which nobody could look."""
        spin, stopped = self.spinning_since, self.stopped_since
        return replace(
            self,
            last=replace(self.last, at=self.last.at + gap_s),
            beat_at=self.beat_at + gap_s,
            progress_at=self.progress_at + gap_s,
            spinning_since=None if spin is None else spin + gap_s,
            stopped_since=None if stopped is None else stopped + gap_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The effective thresholds of one attempt, seconds and bytes; None switches a rule off."""

    heartbeat_s: float = 90.0
    progress_s: float = 300.0
    progress_is_limit: bool = False
    spin_s: float = 600.0
    memory_bytes: int | None = None
    on_heartbeat_lost: Action = Action.KILL
    on_stalled: Action = Action.CAPTURE
    on_cpu_spin: Action = Action.CAPTURE
    on_memory: Action = Action.KILL


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The moments at which an attempt has used up what it was given; None if not set."""

    timeout_at: float
    cancel_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What is known of the observer itself: its last loop gap, and PSI avg10 in percent."""

    last_gap_at: float | None = None
    cpu_pressure: float = 0.0
    memory_pressure: float = 0.0
    io_pressure: float = 0.0

    def doubt(self, now: float) -> str:
        """Say why this host's looks cannot be trusted now, or ''."""
        if self.last_gap_at is not None and now - self.last_gap_at < DOUBT_AFTER_GAP_S:
            return f"own loop stood still {now - self.last_gap_at:.1f} s ago"
        for name, value, limit in (
            ("cpu", self.cpu_pressure, CPU_PRESSURE),
            ("memory", self.memory_pressure, MEMORY_PRESSURE),
            ("io", self.io_pressure, IO_PRESSURE),
        ):
            if value >= limit:
                return f"{name} pressure {value:.0f} % (limit {limit:.0f} %)"
        return ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong with an attempt, what follows, and the numbers behind it."""

    code: Code
    action: Action
    why: str


def judge(
    pulse: Pulse,
    rules: Rules,
    limits: Limits,
    host: Host,
    now: float,
    known: Collection[str] = frozenset(),
) -> Verdict | None:
    """Return the one verdict on an attempt, None if all is well.

    The first that kills, else the first that is not `known` already: declared limits come before
    what is inferred, and of that the strongest evidence.
    """
    first = None
    for verdict in _wrongs(pulse, rules, limits, host, now):
        if verdict.action is Action.KILL:
            return verdict
        if first is None and verdict.code not in known:
            first = verdict
    return first


def _wrongs(
    pulse: Pulse, rules: Rules, limits: Limits, host: Host, now: float
) -> Iterator[Verdict]:
    if limits.cancel_at is not None and now >= limits.cancel_at:
        yield Verdict(Code.CANCELED, Action.KILL, "asked to stop and did not within the grace")
    if now >= limits.timeout_at:
        yield Verdict(Code.TIMEOUT, Action.KILL, "ran past its time limit")
    rss = pulse.last.rss_bytes
    if rules.memory_bytes is not None and rss > rules.memory_bytes:
        why = f"uses {rss} bytes of memory, the limit is {rules.memory_bytes}"
        yield Verdict(Code.MEMORY, rules.on_memory, why)
    for inferred in symptoms(pulse, rules, now):
        if doubt := host.doubt(now):
            why = f"observer unreliable ({doubt}); held: {inferred.code}, {inferred.why}"
            yield Verdict(Code.STARVED_HOST, Action.ALERT, why)
            return
        yield inferred


def symptoms(pulse: Pulse, rules: Rules, now: float) -> Iterator[Verdict]:
    """Yield what the probes alone suggest, the strongest evidence first."""
    silent = now - pulse.beat_at
    if silent >= rules.heartbeat_s:
        why = f"no heartbeat for {silent:.1f} s (limit {rules.heartbeat_s:g} s)"
        if pulse.last.is_stopped:
            yield Verdict(Code.STOPPED, rules.on_heartbeat_lost, f"process is stopped; {why}")
        else:
            yield Verdict(Code.HEARTBEAT_LOST, rules.on_heartbeat_lost, why)
    idle = now - pulse.progress_at
    if idle >= rules.progress_s:
        why = f"no progress for {idle:.1f} s (limit {rules.progress_s:g} s)"
        deadly = rules.progress_is_limit and pulse.last.progress_changes > 0
        yield Verdict(Code.STALLED, Action.KILL if deadly else rules.on_stalled, why)
    if pulse.spinning_since is not None and now - pulse.spinning_since >= rules.spin_s:
        why = f"a full core used for {now - pulse.spinning_since:.0f} s"
        yield Verdict(Code.CPU_SPIN, rules.on_cpu_spin, why)
