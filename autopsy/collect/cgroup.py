"""The control groups of a process: what they allow, what is used, and what they held back.

Secret: the files of version 1 and 2, and where they are mounted. A limit of any group above counts
as one of its own: the tightest is given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from autopsy.collect import procfs
from autopsy.section import Payload

_MAX_LEVELS = 16
# Version 1 writes no limit as the largest whole number of pages.
_NO_LIMIT = 1 << 60
_UNIFIED = "unified"


@dataclass(frozen=True, slots=True)
class Throttling:
    """CPU time that a quota took away so far; `cores` is the quota, None without one."""

    path: str
    cores: float | None
    periods: int
    throttled_periods: int
    throttled_s: float


def is_frozen(pid: int) -> bool:
    """Return whether a group above a process is frozen; its state letter does not tell."""
    states = [*_texts(pid, "freezer", "freezer.state"), *_texts(pid, _UNIFIED, "cgroup.events")]
    return any(text.strip() == "FROZEN" or "frozen 1" in text for text in states)


def memory(pid: int) -> Payload:
    """Return the tightest memory limit above a process and its use.

    Shapes: path, limit_bytes, used_bytes, cache_bytes (of that, given back under need),
    high_bytes, oom_kills, under_oom (all wait for memory); empty without any limit.
    """
    found = [
        *_levels(pid, "memory", _memory_v1),
        *_levels(pid, _UNIFIED, _memory_v2),
    ]
    limited = [one for one in found if one["limit_bytes"] is not None]
    return min(limited, key=lambda one: one["limit_bytes"] - one["used_bytes"], default={})


def tasks(pid: int) -> Payload:
    """Return path, limit and count of the tightest limit on threads; empty without any."""
    found = [*_levels(pid, "pids", _tasks), *_levels(pid, _UNIFIED, _tasks)]
    limited = [one for one in found if one["limit"] is not None]
    return min(limited, key=lambda one: one["limit"] - one["count"], default={})


def throttling(pid: int) -> list[Throttling]:
    """Return the throttling of each group above a process that has a quota, innermost first."""
    found: list[Throttling] = []
    for controller, of in (("cpu", _throttling_v1), (_UNIFIED, _throttling_v2)):
        for path, directory in _directories(pid, controller):
            one = of(path, directory)
            if one is not None and one.cores is not None:
                found.append(one)
    return found


def pressure(pid: int) -> dict[str, str]:
    """Return the pressure files of the innermost group of version 2 by resource."""
    for _, directory in _directories(pid, _UNIFIED):
        texts = {
            name: procfs.read_text(f"{directory}/{name}.pressure")
            for name in ("cpu", "memory", "io")
        }
        return {name: text for name, text in texts.items() if text}
    return {}


def _texts(pid: int, controller: str, name: str) -> Iterator[str]:
    for _, directory in _directories(pid, controller):
        yield procfs.read_text(f"{directory}/{name}") or ""


def _levels(
    pid: int, controller: str, read: Callable[[str, str], Payload | None]
) -> Iterator[Payload]:
    for path, directory in _directories(pid, controller):
        one = read(path, directory)
        if one is not None:
            yield one


def _directories(pid: int, controller: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each group, from the process's own upwards, and where its files are."""
    mounts = _mounts()
    if controller not in mounts:
        return
    root, point = mounts[controller]
    path = _paths(pid).get(controller, "")
    # In a container only its own part of the tree is mounted.
    shown = path.removeprefix(root) if root != "/" else path
    for _ in range(_MAX_LEVELS):
        yield shown or "/", point + shown.rstrip("/")
        if shown in ("", "/"):
            return
        shown = shown.rpartition("/")[0]


def _paths(pid: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in (procfs.read_text(f"/proc/{pid}/cgroup") or "").splitlines():
        number, controllers, path = line.split(":", 2)
        for one in controllers.split(",") if number != "0" else [_UNIFIED]:
            found[one] = path
    return found


def _mounts() -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for line in (procfs.read_text("/proc/self/mountinfo") or "").splitlines():
        head, _, tail = line.partition(" - ")
        words, kind = head.split(), tail.split()
        if kind[:1] == ["cgroup2"]:
            found.setdefault(_UNIFIED, (words[3], words[4]))
        elif kind[:1] == ["cgroup"]:
            for one in kind[2].split(","):
                found.setdefault(one, (words[3], words[4]))
    return found


def _memory_v1(path: str, directory: str) -> Payload | None:
    limit = _number(f"{directory}/memory.limit_in_bytes")
    used = _number(f"{directory}/memory.usage_in_bytes")
    if used is None:
        return None
    oom = _table(f"{directory}/memory.oom_control")
    return {
        "path": path,
        "limit_bytes": limit if limit is not None and limit < _NO_LIMIT else None,
        "used_bytes": used,
        "cache_bytes": _table(f"{directory}/memory.stat").get("total_inactive_file", 0),
        "high_bytes": None,
        "oom_kills": oom.get("oom_kill", 0),
        "under_oom": bool(oom.get("under_oom")),
    }


def _memory_v2(path: str, directory: str) -> Payload | None:
    used = _number(f"{directory}/memory.current")
    if used is None:
        return None
    return {
        "path": path,
        "limit_bytes": _number(f"{directory}/memory.max"),
        "used_bytes": used,
        "cache_bytes": _table(f"{directory}/memory.stat").get("inactive_file", 0),
        "high_bytes": _number(f"{directory}/memory.high"),
        "oom_kills": _table(f"{directory}/memory.events").get("oom_kill", 0),
        "under_oom": False,
    }


def _tasks(path: str, directory: str) -> Payload | None:
    count = _number(f"{directory}/pids.current")
    if count is None:
        return None
    return {"path": path, "limit": _number(f"{directory}/pids.max"), "count": count}


def _throttling_v1(path: str, directory: str) -> Throttling | None:
    table = _table(f"{directory}/cpu.stat")
    quota, period = (_number(f"{directory}/cpu.cfs_{name}_us") for name in ("quota", "period"))
    if quota is None or not period:
        return None
    return _throttled(path, quota / period if quota > 0 else None, table, 1e9, "throttled_time")


def _throttling_v2(path: str, directory: str) -> Throttling | None:
    words = (procfs.read_text(f"{directory}/cpu.max") or "").split()
    if len(words) != 2:
        return None
    cores = int(words[0]) / int(words[1]) if words[0].isdigit() else None
    return _throttled(path, cores, _table(f"{directory}/cpu.stat"), 1e6, "throttled_usec")


def _throttled(
    path: str, cores: float | None, table: Mapping[str, int], per_s: float, time: str
) -> Throttling:
    return Throttling(
        path,
        round(cores, 3) if cores is not None else None,
        table.get("nr_periods", 0),
        table.get("nr_throttled", 0),
        table.get(time, 0) / per_s,
    )


def _table(path: str) -> dict[str, int]:
    found = re.findall(r"^(\w+) (\d+)$", procfs.read_text(path) or "", re.MULTILINE)
    return {name: int(value) for name, value in found}


def _number(path: str) -> int | None:
    text = (procfs.read_text(path) or "").strip()
    return int(text) if text.removeprefix("-").isdigit() else None
