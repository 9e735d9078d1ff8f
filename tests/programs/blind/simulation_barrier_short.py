"""DIAGNOSIS wait.no_waker: a threading.Barrier of four parties, one of which returned early and
will never arrive; the main thread joins the others.
"""

import threading
import time

from _stage import ready

step = threading.Barrier(4)


def particle(n):
    for tick in range(100):
        if n == 3 and tick == 2:
            return
        step.wait()


ts = [threading.Thread(target=particle, args=(n,), name=f"cell-{n}") for n in range(4)]
[t.start() for t in ts]
time.sleep(0.3)
ready()
[t.join() for t in ts]
