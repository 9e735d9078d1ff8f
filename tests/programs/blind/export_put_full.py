"""DIAGNOSIS wait.no_waker: put() on a bounded queue.Queue whose only consumer thread has died of an
exception.
"""

# ruff: noqa: F841

import queue
import threading

from _stage import ready

threading.excepthook = lambda args: None
chunks = queue.Queue(maxsize=10)


def writer():
    n = 0
    while True:
        row = chunks.get()
        n += 1
        if n == 5:
            raise OSError("disk full")


def export(rows):
    threading.Thread(target=writer, name="csv-writer", daemon=True).start()
    for i in range(rows):
        if i == 15:
            ready()
        chunks.put({"id": i})


export(1000)
