"""DIAGNOSIS wait.no_waker: queue.join() although everything was consumed: a worker's `continue`
skipped task_done(); the workers wait in get().
"""

import queue
import threading
import time

from _stage import ready

q = queue.Queue()


def worker():
    while True:
        item = q.get()
        if item % 7 == 0:
            continue
        time.sleep(0.001)
        q.task_done()


for i in range(3):
    threading.Thread(target=worker, daemon=True, name=f"worker-{i}").start()
for i in range(50):
    q.put(i)
time.sleep(0.5)
ready()
q.join()
