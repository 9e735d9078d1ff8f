"""DIAGNOSIS deadlock.in_process: five philosophers, each took the left fork with a bare acquire()
and waits for the right one; main joins them.
"""

import threading
import time

from _stage import ready

forks = [threading.Lock() for _ in range(5)]
seated = threading.Barrier(6)


def dine(i):
    left, right = forks[i], forks[(i + 1) % 5]
    left.acquire()
    seated.wait()
    time.sleep(0.1)
    right.acquire()
    time.sleep(0.01)
    right.release()
    left.release()


ts = [threading.Thread(target=dine, args=(i,), name=f"philosopher-{i}") for i in range(5)]
[t.start() for t in ts]
seated.wait()
time.sleep(0.3)
ready()
[t.join() for t in ts]
