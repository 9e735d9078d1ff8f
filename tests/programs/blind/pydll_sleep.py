"""DIAGNOSIS blocked.native_gil: ctypes.PyDLL keeps the GIL over the C function sleep(): the process
is asleep and no other thread gets a turn.
"""

import ctypes
import threading
import time

from _stage import ready


def heartbeat():
    while True:
        time.sleep(0.1)


for i in range(2):
    threading.Thread(target=heartbeat, daemon=True, name=f"heartbeat-{i}").start()


def settle():
    ctypes.PyDLL(None).sleep(1000000)


t = threading.Thread(target=settle, name="device")
ready()
t.start()
t.join()
