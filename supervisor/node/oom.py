"""The kernel's counters of out-of-memory kills, and which deaths of workers they explain.

Secret kept here: where the control group of the node keeps its counter (memory.events of version 2,
memory.oom_control of version 1), and that a rise is used for one death only, and soon. Workers are
born into the node's group. Where it cannot be read the host's counter is, as a hint, never a proof.
"""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from supervisor.model.crash import OomEvidence

#: A process that is killed with a large memory takes a while to be gone.
RECENT_S = 5.0
#: More at once are as good as many.
_RISES_KEPT = 1000
_OOM_KILL = "oom_kill"
_COUNTER = "the OOM killer's counter"


@dataclass(frozen=True, slots=True)
class _Counter:
    """One file with an `oom_kill` line, and how people know it."""

    file: Path
    name: str

    def read(self) -> int:
        """Return the count. Raises: OSError, ValueError."""
        for line in self.file.read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == _OOM_KILL:
                return int(value)
        raise ValueError(f"{self.file} has no {_OOM_KILL} line")


class OomWatch:
    """Reads the counters each second, and at a death."""

    def __init__(self, proc: Path = Path("/proc"), host_root: Path = Path("/")) -> None:
        self._host = _Counter(proc / "vmstat", "the host")
        self._host_last = _try(self._host)[0]
        self._group, self._problem = _find_group(proc, host_root)
        self._last: int | None = None
        if self._group is not None:
            self._last, self._problem = _try(self._group)
        self._rises: deque[float] = deque(maxlen=_RISES_KEPT)

    def look(self, now: float) -> int:
        """Note new OOM kills; return how many no death of a worker has explained in time."""
        if self._group is not None:
            count, self._problem = _try(self._group)
            if count is not None:
                new = count - (count if self._last is None else self._last)
                self._rises.extend([now] * min(new, _RISES_KEPT))
                self._last = count
        unexplained = 0
        while self._rises and now - self._rises[0] > RECENT_S:
            self._rises.popleft()
            unexplained += 1
        return unexplained

    def explain(self, now: float) -> OomEvidence:
        """Say what the counters know of a SIGKILL that was seen now."""
        self.look(now)
        if self._group is not None and not self._problem:
            source = f"{_OOM_KILL} of control group {self._group.name} is {self._last}"
            if not self._rises:
                return OomEvidence(killed=False, text=f"{_COUNTER} did not rise", source=source)
            self._rises.popleft()
            return OomEvidence(killed=True, text=f"{_COUNTER} rose", source=source)
        before, (self._host_last, host_problem) = self._host_last, _try(self._host)
        source = f"{_OOM_KILL} of its control group could not be read ({self._problem})"
        text = f"{_COUNTER} could not be read"
        if host_problem or before is None or self._host_last is None:
            return OomEvidence(killed=False, text=text, source=source)
        hint = "that of the host did not rise"
        if self._host_last != before:
            hint = "that of the host rose since the last such death: perhaps it was this one"
        return OomEvidence(killed=False, text=f"{text}, {hint}", source=source)


def _try(counter: _Counter) -> tuple[int | None, str]:
    """Return the count, or None and why it cannot be read."""
    try:
        return counter.read(), ""
    except (OSError, ValueError) as exc:
        return None, f"{type(exc).__name__}: {exc}"


def _find_group(proc: Path, root: Path) -> tuple[_Counter | None, str]:
    """Find the counter of our own group; version 1 first, since there it has the memory."""
    try:
        groups = [line.split(":", 2) for line in (proc / "self/cgroup").read_text().splitlines()]
        mounts = (proc / "self/mountinfo").read_text().splitlines()
    except OSError as exc:
        return None, str(exc)
    paths = {controllers: path for _, controllers, path in groups}
    for controllers, path in paths.items():
        if "memory" in controllers.split(","):
            return _counter(mounts, "cgroup", "memory", path, root, "memory.oom_control")
    if "" in paths:
        return _counter(mounts, "cgroup2", "", paths[""], root, "memory.events")
    return None, "it is in no control group for memory"


def _counter(
    mounts: list[str], kind: str, option: str, path: str, root: Path, file: str
) -> tuple[_Counter | None, str]:
    """Find where the hierarchy is mounted, and the group in it. Source: proc(5), mountinfo."""
    for line in mounts:
        left, _, right = line.partition(" - ")
        found, _, options = right.split(" ", 2)
        mounted, at = left.split(" ")[3:5]
        if found != kind or (option and option not in options.split(",")):
            continue
        inside = os.path.relpath(path, mounted)
        if inside.startswith(".."):
            return None, f"group {path} is not below {mounted}, which is mounted"
        return _Counter(root / at.lstrip("/") / inside / file, path), ""
    return None, f"no {kind} hierarchy with memory is mounted"
