"""DIAGNOSIS deadlock.in_process: a signal handler wants the lock that the interrupted main thread
holds (it runs on top of the critical section, on the same stack).
"""

import signal
import threading
import time

from _stage import ready

lock = threading.Lock()
seen = [0]


def on_alarm(sig, frame):
    with lock:
        print("seen", seen[0])


def sampler():
    while True:
        time.sleep(0.4)


threading.Thread(target=sampler, daemon=True, name="sampler").start()
signal.signal(signal.SIGALRM, on_alarm)
signal.setitimer(signal.ITIMER_REAL, 0.3)
ready()
while True:
    with lock:
        seen[0] += 1
        time.sleep(0.05)
