"""DIAGNOSIS busy.livelock: two workers politely hand a token to each other through a Condition
("after you"), thousands of times a second, and neither works.
"""

import threading
import time

from _stage import ready

cond = threading.Condition()
turn = [0]
wants = [True, True]
done = [0, 0]


def worker(me):
    other = 1 - me
    while not done[me]:
        with cond:
            while turn[0] != me:
                cond.wait()
            if wants[other]:
                turn[0] = other
                cond.notify_all()
                continue
            done[me] = 1


ts = [threading.Thread(target=worker, args=(i,), name=f"polite-{i}") for i in (0, 1)]
[t.start() for t in ts]
time.sleep(0.3)
ready()
[t.join() for t in ts]
