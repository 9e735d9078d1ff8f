"""DIAGNOSIS wait.no_waker|deadlock.in_process: the only consumer of a bounded queue put()s its
follow-up work into the same, full queue.
"""

import queue
import threading
import time

from _stage import ready

q = queue.Queue(maxsize=10)


def crawl():
    while True:
        n = q.get()
        for k in range(3):
            q.put(n * 3 + k)


t = threading.Thread(target=crawl, name="crawler")
t.start()
q.put(1)
time.sleep(0.3)
ready()
t.join()
