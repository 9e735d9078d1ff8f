"""DIAGNOSIS busy.livelock: three robots each take their own tool and try the neighbour's without
blocking; on failure all put back and try again (sleep(0)); none makes progress.
"""

import threading
import time

from _stage import ready

tools = [threading.Lock() for _ in range(3)]
sync = threading.Barrier(3)


def robot(n):
    mine, other = tools[n], tools[(n + 1) % 3]
    while True:
        if not mine.acquire(blocking=False):
            time.sleep(0)
            continue
        sync.wait()
        got = other.acquire(blocking=False)
        sync.wait()
        mine.release()
        if got:
            other.release()
            return
        time.sleep(0)


ts = [threading.Thread(target=robot, args=(n,), name=f"robot-{n}") for n in range(3)]
[t.start() for t in ts]
time.sleep(0.3)
ready()
[t.join() for t in ts]
