"""DIAGNOSIS wait.no_waker: a Barrier for four, but one party died of an exception before it got
there; three threads and main's join wait for ever.
"""

import threading
import time

from _stage import ready

gate = threading.Barrier(4)


def shard(i):
    if i == 2:
        raise ValueError("bad shard")
    time.sleep(0.05)
    gate.wait()


ts = [threading.Thread(target=shard, args=(i,), name=f"shard-{i}") for i in range(4)]
[t.start() for t in ts]
time.sleep(0.3)
ready()
[t.join() for t in ts]
