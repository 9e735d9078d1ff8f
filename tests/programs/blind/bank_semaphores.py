"""DIAGNOSIS deadlock.in_process|wait.no_waker: two teller threads take two threading.Semaphore(1)
in opposite order.
"""

import threading
import time

from _stage import ready


class Vault:
    def __init__(self, name):
        self.name = name
        self.slot = threading.Semaphore(1)


def teller(first, second):
    for _day in range(10):
        with first.slot:
            time.sleep(0.15)
            with second.slot:
                pass


north, south = Vault("north"), Vault("south")
ts = [
    threading.Thread(target=teller, args=p, name=f"teller-{p[0].name}")
    for p in ((north, south), (south, north))
]
[t.start() for t in ts]
time.sleep(0.7)
ready()
[t.join() for t in ts]
