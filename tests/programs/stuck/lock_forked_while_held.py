"""DIAGNOSIS deadlock.in_process: forked while a thread held a lock; here that thread is not."""

import os
import threading
import time

from _stage import die_with_parent, ready

cache_lock = threading.Lock()


def refresh() -> None:
    with cache_lock:
        time.sleep(1.0)


threading.Thread(target=refresh, name="refresh", daemon=True).start()
time.sleep(0.1)
child = os.fork()
if child == 0:
    die_with_parent()
    ready()
    cache_lock.acquire()
    os._exit(0)
os.waitpid(child, 0)
