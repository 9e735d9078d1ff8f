"""DIAGNOSIS none.progressing (control): producer, transformer and consumer threads with bounded
queues; slow, but every queue moves.
"""

import queue
import threading
import time

from _stage import ready

raw, cooked = queue.Queue(4), queue.Queue(4)
count = 0


def produce():
    n = 0
    while True:
        raw.put({"n": n})
        n += 1


def transform():
    while True:
        row = raw.get()
        row["sum"] = sum(i * i for i in range(20_000 + row["n"] % 100))
        cooked.put(row)


def consume():
    global count
    while True:
        cooked.get()
        count += 1
        time.sleep(0.03)


ts = [threading.Thread(target=f, name=f.__name__) for f in (produce, transform, consume)]
[t.start() for t in ts]
ready()
[t.join() for t in ts]
