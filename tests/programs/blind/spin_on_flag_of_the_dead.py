"""DIAGNOSIS busy.python: `while not done: pass`; the thread that should set the flag has died; a
bystander sleeps.
"""

import threading
import time

from _stage import ready


class Job:
    done = False


job = Job()


def work():
    raise RuntimeError("disk full")
    job.done = True


def metrics():
    while True:
        time.sleep(0.2)


threading.Thread(target=metrics, daemon=True, name="metrics").start()
threading.Thread(target=work, name="work").start()
ready()
while not job.done:
    pass
