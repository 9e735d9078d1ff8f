"""DIAGNOSIS deadlock.in_process|wait.no_waker: home-made readers-writer lock: two readers both want
to upgrade to writer and wait on the Condition for the other to leave.
"""

import threading
import time

from _stage import ready


class RWLock:
    def __init__(self):
        self.cond = threading.Condition()
        self.readers = 0

    def read(self):
        with self.cond:
            self.readers += 1

    def upgrade(self):
        with self.cond:
            while self.readers > 1:
                self.cond.wait()

    def leave(self):
        with self.cond:
            self.readers -= 1
            self.cond.notify_all()


rw = RWLock()
both = threading.Barrier(2)


def edit(item):
    rw.read()
    both.wait()
    rw.upgrade()
    rw.leave()


ts = [threading.Thread(target=edit, args=(i,), name=f"editor-{i}") for i in range(2)]
[t.start() for t in ts]
time.sleep(0.3)
ready()
[t.join() for t in ts]
