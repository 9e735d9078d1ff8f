"""DIAGNOSIS blocked.sleep: ctypes.CDLL sleep() (GIL released) of a day in a vendor call; another
thread ticks.
"""

import ctypes
import threading
import time

from _stage import ready

vendor = ctypes.CDLL(None)


def tick():
    while True:
        time.sleep(0.5)


def calibrate(device):
    vendor.sleep(86400)


threading.Thread(target=tick, daemon=True).start()
ready()
calibrate("xray-1")
