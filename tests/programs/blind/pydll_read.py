"""DIAGNOSIS blocked.native_gil: a driver bound with PyDLL does read() on a pipe that stays empty,
with the GIL held.
"""

import ctypes
import os
import threading
import time

from _stage import ready

r, w = os.pipe()


def tick():
    while True:
        time.sleep(0.05)


threading.Thread(target=tick, daemon=True, name="tick").start()
time.sleep(0.1)
buf = ctypes.create_string_buffer(10)
ready()
ctypes.PyDLL(None).read(r, buf, 10)
