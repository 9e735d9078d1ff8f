"""DIAGNOSIS wait.no_waker: a producer in put() on a full bounded queue; both consumers died of bad
input.
"""

import queue
import threading
import time

from _stage import ready

q = queue.Queue(20)


def consume():
    while True:
        print(100 // q.get())


for _ in range(2):
    threading.Thread(target=consume, name="consumer").start()


def produce():
    for n in [5, 0, 4, 0] + [1] * 30:
        q.put(n)


time.sleep(0.1)
p = threading.Thread(target=produce, name="producer")
p.start()
time.sleep(0.4)
ready()
p.join()
