"""DIAGNOSIS blocked.ipc|wait.no_waker: a thread reads a self-pipe (the wake-up channel); the thread
that should have written to it has died.
"""

import os
import threading
import time

from _stage import ready

r, w = os.pipe()


def waker():
    raise OSError("config vanished")
    os.write(w, b"!")


def loop():
    while os.read(r, 1):
        pass


threading.Thread(target=waker, name="waker").start()
t = threading.Thread(target=loop, name="loop")
t.start()
time.sleep(0.2)
ready()
t.join()
