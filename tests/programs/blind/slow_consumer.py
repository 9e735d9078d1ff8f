"""DIAGNOSIS leak.memory_python: an unbounded queue.Queue: the producer thread makes 40 times what
the consumer takes; RSS grows by some MB/s for minutes.
"""

import queue
import threading
import time

from _stage import ready

q = queue.Queue()


class Event:
    def __init__(self, n):
        self.n = n
        self.tags = {"host": f"h{n}", "n": str(n)}
        self.body = f"{n}," * 60


def consume():
    while True:
        q.get()
        time.sleep(0.02)


def produce():
    n = 0
    while n < 1200000:
        for _ in range(100000 if n == 0 else 160):
            q.put(Event(n))
            n += 1
        time.sleep(0.03)
        if n == 100000:
            ready()


ts = [threading.Thread(target=f, name=f.__name__) for f in (produce, consume)]
[t.start() for t in ts]
[t.join() for t in ts]
