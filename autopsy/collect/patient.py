"""The process under examination, pinned so that a reused pid is never taken for it.

Invariant: the pidfd is opened before anything is read, so as long as it is open a changed start
time can only mean that the patient was replaced before we came.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
from collections.abc import Iterator
from dataclasses import dataclass

from autopsy import clock
from autopsy.collect import procfs
from autopsy.errors import NoSuchPatient, PatientReplaced
from autopsy.section import Skipped

STOPPED_STATES = frozenset("Tt")
DEAD_STATES = frozenset("ZX")
# Between two looks: long enough for a living loop to turn, short enough for ten captures before a
# kill.
MOVEMENT_WINDOW_S = 0.25
# CPU time is counted in steps of 10 ms.
_LEAST_WINDOW_S = 0.1


@dataclass(frozen=True, slots=True)
class Patient:
    """One process: its pid, its start time in ticks since boot, a pidfd, when we opened it.

    What was seen of it by `deadline_mono` counts; the collectors are not waited for any longer.
    """

    pid: int
    start_ticks: int
    pidfd: int
    opened_mono: float
    deadline_mono: float = math.inf

    def is_there(self) -> bool:
        """Return whether the pid still belongs to this process (an unreaped one counts)."""
        return procfs.start_ticks(self.pid) == self.start_ticks

    def require_open(self) -> None:
        """Raise Skipped when the kernel does not show us what the process has open."""
        if procfs.is_hidden(self.pid):
            raise Skipped("no permission to see its descriptors: needs SYS_PTRACE")

    def thread_states(self) -> dict[int, str]:
        """Return the state letter of every thread; empty when the process is gone."""
        found: dict[int, str] = {}
        for tid in procfs.thread_ids(self.pid):
            stat = procfs.stat(f"/proc/{self.pid}/task/{tid}/stat")
            if stat:
                found[tid] = stat.state
        return found

    def wait_until(self, seconds_after_opening: float) -> None:
        """Sleep until that long after the patient was opened."""
        clock.sleep(self.opened_mono + seconds_after_opening - clock.mono())

    def wait_window(self, window_s: float, began_ms: float) -> float:
        """Sleep to the end of the window, for long enough since then; return the seconds since.

        A first look at a thousand threads can leave little of the window.
        """
        self.wait_until(max(window_s, began_ms / 1000 + _LEAST_WINDOW_S))
        return max(self.elapsed_ms() - began_ms, 1.0) / 1000

    def elapsed_ms(self) -> float:
        """Return milliseconds since the patient was opened."""
        return clock.ms_since(self.opened_mono)

    def resume(self) -> None:
        """Send SIGCONT; a patient that has just ended needs none."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGCONT)


def _absent(pid: int) -> NoSuchPatient:
    status = procfs.status(f"/proc/{pid}/status") or {}
    process = status.get("Tgid", "")
    if process and process != str(pid):
        return NoSuchPatient(
            f"{pid} is a thread of process {process} ({status.get('Name', '')})",
            remedy=f"Examine the process with all its threads: autopsy {process}",
        )
    return NoSuchPatient(
        f"no process has pid {pid}",
        remedy="Look for it with pgrep -af python; in a container pids are counted anew, so run "
        "autopsy inside of it, or on the host with the pid that the host shows.",
    )


def _unreadable(pid: int, pidfd: int) -> NoSuchPatient:
    """Its pid was there; its entry in /proc is not."""
    has_ended, _, _ = select.select([pidfd], [], [], 0)
    if has_ended:
        return NoSuchPatient(f"process {pid} has just ended", remedy="Nothing is left to read.")
    return NoSuchPatient(
        f"process {pid} is not shown to user {os.geteuid()} in /proc",
        remedy="/proc is mounted with hidepid: run autopsy as root, or as the user of the process.",
    )


def gone(pid: int) -> Patient:
    """Return a process that has ended, for those who look at what outlives it."""
    return Patient(pid, 0, -1, clock.mono())


@contextlib.contextmanager
def open_patient(
    pid: int, start_ticks: int | None = None, deadline_mono: float = math.inf
) -> Iterator[Patient]:
    """Pin a process for the length of a capture.

    Raises NoSuchPatient, or PatientReplaced when `start_ticks` is given and differs.
    """
    opened = clock.mono()
    try:
        pidfd = os.pidfd_open(pid)
    except (OSError, OverflowError) as exc:
        raise _absent(pid) from exc
    try:
        stat = procfs.stat(f"/proc/{pid}/stat")
        if stat is None:
            raise _unreadable(pid, pidfd)
        if stat.is_kernel_thread:
            raise NoSuchPatient(
                f"pid {pid} is a thread of the kernel ({stat.name})",
                remedy="It runs no program; its stack is in /proc/PID/stack, for root.",
            )
        if start_ticks is not None and stat.start_ticks != start_ticks:
            raise PatientReplaced(
                f"pid {pid} started at tick {stat.start_ticks}, not {start_ticks}: it is another "
                "process",
                remedy="The process you meant has ended; look at how it ended instead.",
            )
        yield Patient(pid, stat.start_ticks, pidfd, opened, deadline_mono)
    finally:
        os.close(pidfd)
