"""DIAGNOSIS deadlock.in_process: a thread takes a lock that it has already, and it is no RLock."""

import threading

from _stage import ready


class Counter:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._value = 0

    def add(self) -> int:
        with self._lock:
            self._value += 1
            ready()
            return self.value()

    def value(self) -> int:
        with self._lock:
            return self._value


Counter().add()
