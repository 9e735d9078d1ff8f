"""What a Python process knows of itself, read from its memory: locks, tasks, pools.

Secret: one interpreter is opened for all sections of a capture. Invariant: each section ends by
its own deadline, inside the time box of the runner.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from autopsy import clock
from autopsy.collect.patient import Patient
from autopsy.cpython import locklist, motion, pool, tasklist
from autopsy.cpython.interpreter import Interpreter, open_interpreter
from autopsy.cpython.reader import OutOfTime, Unreadable
from autopsy.section import Payload, Skipped

TIME_BOX_S = 2.0
# Leave time for the section to be handed over before its box closes, or the whole budget ends.
_READING_S = 1.7
_HANDING_S = 0.1


class Interior:
    """The inside of one patient."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._opened: Interpreter | None = None
        self._reason = ""

    def thread_locks(self, patient: Patient) -> Payload:
        """Return who waits for which lock and who holds it."""
        return self._read(patient, locklist.collect)

    def tasks(self, patient: Patient) -> Payload:
        """Return the tasks of asyncio and what each awaits."""
        return self._read(patient, tasklist.collect)

    def pools(self, patient: Patient) -> Payload:
        """Return the pools of connections and threads and how much of each is in use."""
        return self._read(patient, pool.collect)

    def motion(self, patient: Patient) -> Payload:
        """Return where the threads stood at many moments."""
        return self._read(patient, motion.collect)

    def _read(self, patient: Patient, collect: Callable[[Interpreter], Payload]) -> Payload:
        interpreter = self._interpreter(patient)
        try:
            try:
                return collect(interpreter)
            except Unreadable:
                return collect(interpreter.again())  # it may have changed just then
        except Unreadable as exc:
            raise Skipped("it changed too quickly to be read") from exc
        except OutOfTime as exc:
            raise Skipped("there was not enough time to read it") from exc

    def _interpreter(self, patient: Patient) -> Interpreter:
        with self._guard:
            if self._opened is None and not self._reason:
                ends = min(clock.mono() + _READING_S, patient.deadline_mono - _HANDING_S)
                try:
                    self._opened = open_interpreter(patient.pid, ends)
                except Skipped as exc:
                    self._reason = str(exc)
            if self._opened is None:
                raise Skipped(self._reason)
            return self._opened
