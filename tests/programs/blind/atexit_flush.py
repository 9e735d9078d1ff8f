"""DIAGNOSIS exit.hung_shutdown|wait.no_waker: an atexit hook waits for the queue of a daemon sender
thread that is already dead.
"""

import atexit
import queue
import threading
import time

from _stage import ready

q = queue.Queue()


def sender():
    while True:
        q.get().send()
        q.task_done()


def flush():
    ready()
    q.join()


threading.Thread(target=sender, daemon=True, name="sender").start()
atexit.register(flush)
q.put("metric")
q.put("metric")
time.sleep(0.2)
