"""How a thread shared the CPU in the window between two looks: what it got and what it asked for.

Secret: the arithmetic of the scheduler's counters. A thread in the queue for a CPU is no less busy
than one that has it, so what is judged is the share that it would use of a CPU of its own. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from autopsy.section import Payload

_TICKS_PER_S = 100  # USER_HZ: fixed at 100 in what /proc shows on x86-64 and arm64
_LEAST_S = 0.001
_WORKS = 0.02
# In the queue for so much of the time, it would use clearly more than it gets.
_KEPT_OFF = 0.2


@dataclass(frozen=True, slots=True)
class CpuShare:
    """Shares of the window: on the CPU, in the queue for one, and wanting none.

    `waited` and `asleep` are None where the kernel keeps no such statistics.
    """

    got: float = 0.0
    waited: float | None = None
    asleep: float | None = None

    @property
    def wanted(self) -> float:
        """The share that it would use of a CPU of its own; what it got where that is all we know.

        Sleeps last as long on a host without a queue, so only the time in the queue is left out.
        """
        if self.asleep is None:
            return self.got
        return self.got / (self.got + self.asleep) if self.asleep > 0 else 1.0

    @property
    def ready(self) -> float:
        """The share in which it ran or could have run."""
        return self.got + (self.waited or 0.0)

    @property
    def kept_off(self) -> bool:
        """Whether it stood in the queue for so long that it turns and moves less than it would."""
        return (self.waited or 0.0) > _KEPT_OFF

    def told(self, *, limited: bool) -> str:
        """Return how evidence puts it; `limited` when its own CPU limit keeps it off."""
        if not self.kept_off or self.wanted - self.got <= _KEPT_OFF:
            return f"{self.got:.0%} CPU"
        why = "its CPU limit is used up" if limited else "the host is short of CPU"
        return f"{self.got:.0%} CPU, {self.wanted:.0%} wanted: {why}"


def counted(look: Payload, later: Payload, window_s: float) -> tuple[float, float | None]:
    """Return the shares of the window in which a thread ran and in which it waited to run."""
    if "mono_s" in look and "mono_s" in later:  # whoever looked may have had to wait, too
        window_s = max(later["mono_s"] - look["mono_s"], _LEAST_S)
    ticks = later["cpu_ticks"] - look["cpu_ticks"]
    ran_s, waited_s = _grown_s(look, later, "cpu_ns"), _grown_s(look, later, "run_delay_ns")
    got = (ticks / _TICKS_PER_S if ran_s is None else ran_s) / window_s
    return got, None if waited_s is None else waited_s / window_s


def shared(
    look: Payload, later: Payload, window_s: float, excused: float, instant: float
) -> CpuShare:
    """Return the shares of a thread between two looks at it.

    `excused`: for how long our own threads in it may have had the interpreter that it waited for.
    `instant`: the share of many looks that found it on an instruction that nothing can sleep in.
    """
    got, waited = counted(look, later, window_s)
    if waited is None:
        return CpuShare(got)
    if look["state"] == later["state"] == "R" and look["switches"] == later["switches"]:
        # It gave up the CPU of itself not once: what is missing is a wait that still goes on, which
        # is counted when it ends.
        return CpuShare(got, waited, 0.0)
    # One that stands still for want of the interpreter uses no CPU.
    most = 1 - instant if got > _WORKS else 1.0
    return CpuShare(got, waited, max(0.0, min(1 - got - waited - excused, most)))


def _grown_s(look: Payload, later: Payload, counter: str) -> float | None:
    before, after = look.get(counter), later.get(counter)
    return None if before is None or after is None else (after - before) / 1e9
