"""DIAGNOSIS none.progressing|none.idle (control): producer and four consumers on a bounded queue;
an item every few ms.
"""

import queue
import threading
import time
import zlib

from _stage import ready

q = queue.Queue(50)
done = []


def produce():
    n = 0
    while True:
        q.put(n)
        n += 1
        time.sleep(0.004)


def consume():
    while True:
        n = q.get()
        zlib.compress(str(n).encode() * 3000)
        done.append(n)
        del done[:-100]
        q.task_done()


ts = [
    threading.Thread(target=f, name=f"{f.__name__}-{i}")
    for i, f in enumerate((produce, consume, consume, consume, consume))
]
[t.start() for t in ts]
ready()
ts[0].join()
