"""DIAGNOSIS blocked.native_gil: a thread reads a silent modem (socket pair) through ctypes.PyDLL
read(2), which keeps the GIL; the main loop stands still.
"""

import ctypes
import socket
import threading
import time

from _stage import ready

libc = ctypes.PyDLL(None)
modem, line = socket.socketpair()


def read_modem():
    buf = ctypes.create_string_buffer(16)
    time.sleep(0.3)
    ready()
    libc.read(line.fileno(), buf, 16)
    return buf.value


threading.Thread(target=read_modem, name="modem").start()
ticks = 0
while True:
    time.sleep(0.02)
    ticks += 1
