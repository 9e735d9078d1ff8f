"""DIAGNOSIS busy.livelock|busy.python: two transfers give way to each other for ever: with a
barrier step each takes its own account and fails to take the other's.
"""

import threading
import time

from _stage import ready


class Account:
    def __init__(self):
        self.lock = threading.Lock()
        self.balance = 100


a, b = Account(), Account()
step = threading.Barrier(2)


def transfer(src, dst):
    while True:
        src.lock.acquire()
        step.wait()
        if dst.lock.acquire(False):
            src.balance -= 1
            dst.balance += 1
            return
        step.wait()
        src.lock.release()


ts = [
    threading.Thread(target=transfer, args=x, name=n)
    for x, n in (((a, b), "a-to-b"), ((b, a), "b-to-a"))
]
[t.start() for t in ts]
time.sleep(0.3)
ready()
[t.join() for t in ts]
