"""What the kernel says of a worker and of this host: read-only, a few small files, no waiting."""

from __future__ import annotations

import os
from contextlib import suppress

from supervisor.clock import Clock
from supervisor.model.crash import OomEvidence
from supervisor.model.health import Host, Signs
from supervisor.node.oom import OomWatch
from supervisor.telemetry.events import emit
from supervisor.worker import tree
from supervisor.worker.vitals import Reading

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
#: Pressure files and counters are read this often.
HOST_EVERY_S = 1.0

# Fields of proc(5) stat, counted from the state (field 3).
_STATE, _UTIME, _STIME, _RSS = 0, 11, 12, 21


def signs(pid: int, reading: Reading, now: float) -> Signs | None:
    """Join the vital signs with /proc/PID/stat; None if the process is gone."""
    fields = tree.stat_fields(pid)
    if fields is None:
        return None
    return Signs(
        at=now,
        beats=reading.beats,
        ticks=reading.ticks,
        progress_changes=reading.progress_changes,
        progress_done=reading.progress_done,
        rss_bytes=int(fields[_RSS]) * PAGE_BYTES,
        cpu_s=(int(fields[_UTIME]) + int(fields[_STIME])) / TICKS_PER_S,
        proc_state=fields[_STATE],
        open_fds=_open_fds(pid),
    )


def own_usage() -> tuple[float, int]:
    """Return the CPU seconds that this process has used, and its resident bytes."""
    used = os.times()
    fields = tree.stat_fields(os.getpid())
    return used.user + used.system, 0 if fields is None else int(fields[_RSS]) * PAGE_BYTES


def _open_fds(pid: int) -> int:
    """Return how many descriptors are open, 0 if that may not be known."""
    place = f"/proc/{pid}/fd"
    with suppress(OSError):
        # Since Linux 6.2 the size of the directory; counting them takes as long as all else here.
        return os.stat(place).st_size or len(os.listdir(place))  # noqa: PTH116
    return 0


class HostWatch:
    """The pressure on this host, and whom its OOM killer took; read once a second at most."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = Host()
        self._last_at = float("-inf")
        self._oom = OomWatch()

    def look(self) -> Host:
        """Return the pressure (PSI, avg10 in percent; zeros where there is none)."""
        now = self._clock.mono()
        if now - self._last_at >= HOST_EVERY_S:
            self._last_at = now
            self._last = Host(
                cpu_pressure=_pressure("cpu", "some"),
                memory_pressure=_pressure("memory", "full"),
                io_pressure=_pressure("io", "full"),
            )
            if (kills := self._oom.look(now)) > 0:
                emit("oom.unexplained", kills=kills)
        return self._last

    def explain_kill(self) -> OomEvidence:
        """Say what the counters know of a SIGKILL that the node did not send."""
        return self._oom.explain(self._clock.mono())


def _pressure(resource: str, kind: str) -> float:
    with suppress(OSError, ValueError, IndexError), open(f"/proc/pressure/{resource}") as file:
        for line in file:
            words = line.split()
            if words[0] == kind:
                return float(words[1].removeprefix("avg10="))
    return 0.0
