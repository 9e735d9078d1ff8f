"""DIAGNOSIS leak.memory_native: image buffers are malloc'ed through ctypes and never freed; RSS
grows, Python's objects do not.
"""

import ctypes
import time

from _stage import ready

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]


def decode(width, height):
    size = width * height * 3
    buf = libc.malloc(size)
    libc.memset(buf, 1, size)
    return size


total = 0
while total < 400 << 20:
    total += decode(200, 150)
ready()
while total < 2 << 30:
    total += decode(200, 150)
    time.sleep(0.005)
time.sleep(1e6)
