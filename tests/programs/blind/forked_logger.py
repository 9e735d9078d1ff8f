"""DIAGNOSIS deadlock.in_process: forked while another thread was inside the application's registry
lock (an RLock); the child's first lookup waits for a thread that the child does not have.
"""

import os
import threading
import time

from _stage import die_with_parent, ready


class Registry:
    def __init__(self):
        self.lock = threading.RLock()
        self.d = {"a": 1}

    def refresh(self):
        with self.lock:
            time.sleep(2)
            self.d["a"] += 1

    def get(self, k):
        with self.lock:
            return self.d[k]


reg = Registry()
threading.Thread(target=reg.refresh, daemon=True).start()
time.sleep(0.2)
pid = os.fork()
if pid == 0:
    die_with_parent()
    ready()
    reg.get("a")
    os._exit(0)
os.waitpid(pid, 0)
os._exit(1)
