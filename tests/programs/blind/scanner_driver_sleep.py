"""DIAGNOSIS blocked.native_gil: a device driver is called by ctypes.PyDLL (keeps the GIL) and
sleeps inside; other threads never run again.
"""

import ctypes
import threading
import time

from _stage import ready

drv = ctypes.PyDLL(None)
drv.usleep.argtypes = [ctypes.c_uint]
pages = []


def watchdog():
    while True:
        time.sleep(0.1)


def scan_page(n):
    drv.sleep(100000 + n)
    pages.append(n)


threading.Thread(target=watchdog, daemon=True, name="watchdog").start()
time.sleep(0.2)
ready()
scan_page(1)
