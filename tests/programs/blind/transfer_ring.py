"""DIAGNOSIS deadlock.in_process: three workers, three locks in a ring; taken with bare acquire() in
a helper method; a heartbeat thread and main are alive.
"""

import threading
import time

from _stage import ready


class Ledger:
    def __init__(self, name):
        self.name = name
        self.guard = threading.Lock()
        self.balance = 100

    def open(self):
        self.guard.acquire()

    def close(self):
        self.guard.release()


class Transfer(threading.Thread):
    def __init__(self, src, dst, gate):
        super().__init__(name=f"transfer-{src.name}-{dst.name}")
        self.src, self.dst, self.gate = src, dst, gate

    def run(self):
        self.src.open()
        try:
            self.gate.wait()
            self.move(10)
        finally:
            self.src.close()

    def move(self, amount):
        self.dst.open()
        try:
            self.src.balance -= amount
            self.dst.balance += amount
        finally:
            self.dst.close()


def heartbeat():
    while True:
        time.sleep(0.5)


a, b, c = Ledger("eur"), Ledger("usd"), Ledger("gbp")
gate = threading.Barrier(3)
ts = [Transfer(a, b, gate), Transfer(b, c, gate), Transfer(c, a, gate)]
threading.Thread(target=heartbeat, name="heartbeat", daemon=True).start()
[t.start() for t in ts]
time.sleep(0.3)
ready()
while any(t.is_alive() for t in ts):
    for t in ts:
        t.join(timeout=1.0)
