"""DIAGNOSIS wait.no_waker|deadlock.in_process: all permits of a BoundedSemaphore were taken by
threads that ended without release(); the next job waits for ever.
"""

import threading
import time

from _stage import ready

slots = threading.BoundedSemaphore(3)


def render(i):
    slots.acquire()
    if i % 2:
        raise RuntimeError("font missing")
    slots.release()


for i in range(8):
    t = threading.Thread(target=render, args=(i,), name=f"render-{i}")
    t.start()
    if i == 5:
        time.sleep(0.3)
        ready()
    t.join()
