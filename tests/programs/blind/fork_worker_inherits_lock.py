"""DIAGNOSIS deadlock.in_process: READY is a multiprocessing (fork) worker; at the fork another
thread of the parent held the settings RLock, which in the child nobody will release.
"""

import multiprocessing as mp
import threading
import time

from _stage import die_with_parent, ready


class Settings:
    def __init__(self):
        self.lock = threading.RLock()
        self.values = {}

    def reload(self):
        while True:
            with self.lock:
                time.sleep(0.5)
                self.values["t"] = time.time()

    def get(self, key):
        with self.lock:
            return self.values.get(key)


settings = Settings()


def worker(n):
    die_with_parent()
    ready()
    return settings.get("t")


threading.Thread(target=settings.reload, daemon=True, name="reloader").start()
time.sleep(0.2)
ctx = mp.get_context("fork")
p = ctx.Process(target=worker, args=(1,), name="worker-1")
p.start()
p.join()
