"""How the patient grows within the movement window, for when nobody has watched it before.

Secret: the moments. A quarter of a second, of large processes longer, shows a leak at full speed
and no slow one; a ring kept by the patient itself tells more and takes precedence.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from autopsy.collect import history, procfs
from autopsy.collect.patient import MOVEMENT_WINDOW_S, Patient
from autopsy.collect.procfs import Stat
from autopsy.memfd import Kept
from autopsy.section import Payload, Skipped

_MOMENTS = 4
# Of a large process the heap is counted, which takes this long anyhow: time to see it grow.
_LARGE_BYTES, _LARGE_WINDOW_S = 64 << 20, 0.75


def collector(kept: Kept) -> Callable[[Patient], Payload]:
    """Return the collector of the growth: since the attempt's first sample, else in the window."""

    def of(patient: Patient) -> Payload:
        noted = history.noted_growth(patient, kept)
        return {**collect(patient), **noted}

    return of


def collect(patient: Patient) -> Payload:
    """Measure the resident memory, threads and descriptors at a few moments of the window.

    Shapes: source window, points [age_s (before the last, negative), rss_bytes, threads, fds or
    None], minor_faults_per_s (new pages), major_faults_per_s (read from disk). Raises Skipped
    when the process ends.
    """
    seen: list[tuple[float, int, Stat]] = []
    began_ms = patient.elapsed_ms()
    window_s = MOVEMENT_WINDOW_S
    for turn in range(_MOMENTS):
        if turn:
            patient.wait_window(window_s * turn / (_MOMENTS - 1), began_ms)
        look = _look(patient.pid)
        if look is None:
            raise Skipped("the process has no memory of its own any more")
        if look[0] > _LARGE_BYTES:
            window_s = _LARGE_WINDOW_S
        seen.append((patient.elapsed_ms() / 1000, *look))
    first, last = seen[0], seen[-1]
    lasted_s = max(last[0] - first[0], 0.001)
    hidden = procfs.is_hidden(patient.pid)
    fds = None if hidden else len(procfs.descriptors(patient.pid))
    return {
        "source": "window",
        "points": [
            [round(at - last[0], 3), rss, stat.threads, fds if at == last[0] else None]
            for at, rss, stat in seen
        ],
        "baseline": None,
        "minor_faults_per_s": round((last[2].faults[0] - first[2].faults[0]) / lasted_s),
        "major_faults_per_s": round((last[2].faults[1] - first[2].faults[1]) / lasted_s),
    }


def _look(pid: int) -> tuple[int, Stat] | None:
    pages = (procfs.read_text(f"/proc/{pid}/statm") or "0 0").split()
    stat = procfs.stat(f"/proc/{pid}/stat")
    if stat is None or pages[0] == "0":
        return None
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE"), stat
