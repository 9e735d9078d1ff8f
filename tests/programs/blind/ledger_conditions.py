"""DIAGNOSIS deadlock.in_process: two desks take a Condition (its RLock) and a plain RLock in
opposite order; a heartbeat and a timed queue worker go on living.
"""

import queue
import threading
import time

from _stage import ready

accounts, audit = threading.Condition(), threading.RLock()
jobs = queue.Queue()


def heartbeat():
    while True:
        time.sleep(0.5)


def mailer():
    while True:
        try:
            jobs.get(timeout=0.7)
        except queue.Empty:
            pass


def transfer():
    with accounts:
        time.sleep(0.3)
        with audit:
            accounts.notify_all()


def report():
    with audit:
        with audit:
            time.sleep(0.3)
        with accounts:
            accounts.wait_for(lambda: True)


for f in (heartbeat, mailer):
    threading.Thread(target=f, daemon=True, name=f.__name__).start()
ts = [threading.Thread(target=f, name=f.__name__) for f in (transfer, report)]
[t.start() for t in ts]
time.sleep(0.9)
ready()
[t.join() for t in ts]
