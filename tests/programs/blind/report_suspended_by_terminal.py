"""DIAGNOSIS stopped.signal: job control: the process group got SIGTSTP (Ctrl-Z) and nobody sends
SIGCONT.
"""

import os
import signal
import threading
import time

from _stage import ready

stop = threading.Event()


def metrics():
    while not stop.wait(0.1):
        pass


def render(page):
    time.sleep(0.02)


threading.Thread(target=metrics, name="metrics", daemon=True).start()
for page in range(10):
    render(page)
ready()
signal.raise_signal(signal.SIGTSTP)
os.kill(os.getpid(), signal.SIGSTOP)  # when the group is orphaned SIGTSTP is ignored
for page in range(10_000_000):
    render(page)
