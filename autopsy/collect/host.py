"""Whether the host lets the patient run: load, pressure, quotas and limits, over the window.

Secret: which counters grow while somebody has to wait. Averages of the last ten seconds tell
little about now, so every counter is read twice, a movement window apart.
"""

from __future__ import annotations

import os
import re

from autopsy.collect import cgroup, procfs
from autopsy.collect.patient import MOVEMENT_WINDOW_S, Patient
from autopsy.section import Payload

_RESOURCES = ("cpu", "memory", "io")
_STALL = re.compile(r"^(some|full) avg10=([\d.]+) avg60=([\d.]+).*total=(\d+)", re.MULTILINE)
_MEMORY = {
    "MemTotal": "total_bytes",
    "MemAvailable": "available_bytes",
    "SwapTotal": "swap_total_bytes",
    "SwapFree": "swap_free_bytes",
}


def collect(patient: Patient) -> Payload:
    """Look at the host and at the patient's control groups, twice, one movement window apart.

    Shapes: pressure and cgroup.pressure: {cpu|memory|io: {some|full: avg10_ratio, avg60_ratio,
    window_ratio}}; cgroup.cpu: path, cores, throttled_ratio (of the periods in the window),
    throttled_s (in the window), throttled_total_s; affinity: the CPUs it may use.
    """
    pid = patient.pid
    before_ms, before = patient.elapsed_ms(), _counters(pid)
    window_s = patient.wait_window(MOVEMENT_WINDOW_S, before_ms)
    after = _counters(pid)
    status = procfs.status(f"/proc/{pid}/status") or {}
    load = (procfs.read_text("/proc/loadavg") or "0 0 0 0/0").split()
    return {
        "window_s": round(window_s, 3),
        "cpus": os.cpu_count(),
        "affinity": status.get("Cpus_allowed_list", ""),
        "load": [float(word) for word in load[:3]],
        "runnable": int(load[3].partition("/")[0]),
        "memory": _memory(),
        "pressure": _pressure(before[0], after[0], window_s),
        "cgroup": {
            "memory": cgroup.memory(pid),
            "tasks": cgroup.tasks(pid),
            "cpu": _throttled(before[2], after[2]),
            "pressure": _pressure(before[1], after[1], window_s),
        },
    }


_Counters = tuple[dict[str, str], dict[str, str], list[cgroup.Throttling]]


def _counters(pid: int) -> _Counters:
    host = {name: procfs.read_text(f"/proc/pressure/{name}") or "" for name in _RESOURCES}
    return host, cgroup.pressure(pid), cgroup.throttling(pid)


def _pressure(before: dict[str, str], after: dict[str, str], window_s: float) -> Payload:
    found: Payload = {}
    for name, text in after.items():
        earlier = {kind: int(total) for kind, _, _, total in _STALL.findall(before.get(name, ""))}
        stalls = {
            kind: {
                "avg10_ratio": round(float(avg10) / 100, 4),
                "avg60_ratio": round(float(avg60) / 100, 4),
                "window_ratio": round((int(total) - earlier[kind]) / 1e6 / window_s, 4),
            }
            for kind, avg10, avg60, total in _STALL.findall(text)
            if kind in earlier
        }
        if stalls:
            found[name] = stalls
    return found


def _throttled(before: list[cgroup.Throttling], after: list[cgroup.Throttling]) -> Payload:
    """Return the group that held the patient back most in the window; empty without a quota."""
    earlier = {one.path: one for one in before}
    found: list[Payload] = []
    for now in after:
        then = earlier.get(now.path, now)
        periods = now.periods - then.periods
        throttled = now.throttled_periods - then.throttled_periods
        found.append(
            {
                "path": now.path,
                "cores": now.cores,
                "throttled_ratio": round(throttled / periods, 3) if periods else 0.0,
                "throttled_s": round(now.throttled_s - then.throttled_s, 3),
                "throttled_total_s": round(now.throttled_s, 3),
            }
        )
    return max(found, key=lambda one: (one["throttled_ratio"], -(one["cores"] or 0)), default={})


def _memory() -> Payload:
    table = procfs.status("/proc/meminfo") or {}
    return {
        ours: int(table[name].split()[0]) * 1024 for name, ours in _MEMORY.items() if name in table
    }
