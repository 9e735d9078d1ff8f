"""Connections to PostgreSQL bear the name of the attempt that opened them.

Secret kept here: PGAPPNAME in a buffer that the C library's environment points to and that is
written over: no allocation that would never be freed, and a fraction of what a new variable costs.
Whoever sets the variable himself, before or in a body, is not overruled. `os.environ` does not show
it; programs that a body starts with their environment unchanged inherit it.
"""

from __future__ import annotations

import ctypes
import os

VARIABLE = "PGAPPNAME"
#: PostgreSQL cuts a longer name.
NAME_MAX_BYTES = 63


def name_of(task_id: str, attempt: int) -> str:
    """Return what the connections of an attempt are called."""
    return f"supervisor/{task_id}.{attempt}"


class Nameplate:
    """The name that connections get which this process opens from here on."""

    def __init__(self, own: str) -> None:
        self._own = own.encode()[:NAME_MAX_BYTES]
        prefix = f"{VARIABLE}=".encode()
        # Lives as long as the process: the environment keeps pointing to it.
        self._whole = ctypes.create_string_buffer(len(prefix) + NAME_MAX_BYTES + 1)
        self._whole.value = prefix + self._own
        room = ctypes.c_char * (NAME_MAX_BYTES + 1)
        self._name = room.from_buffer(self._whole, len(prefix))
        if VARIABLE not in os.environ:
            ctypes.pythonapi.putenv(self._whole)

    def show(self, task_id: str, attempt: int) -> None:
        """An attempt begins."""
        self._name.value = b"supervisor/%b.%d" % (task_id.encode(), attempt)

    def take_down(self) -> None:
        """The attempt is over: what is opened between two attempts is the worker's own."""
        self._name.value = self._own
