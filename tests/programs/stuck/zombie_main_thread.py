"""DIAGNOSIS busy.python: the main thread has left, so it reads as defunct; another thread spins."""

import ctypes
import threading
import time

from _stage import ready


def search() -> None:
    time.sleep(0.3)
    ready()
    tried = 0
    while tried >= 0:
        tried = (tried + 3) % 1001


threading.Thread(target=search, name="search").start()
time.sleep(0.1)
ctypes.CDLL(None).pthread_exit(None)
