"""DIAGNOSIS leak.memory_native: a ctypes wrapper mallocs a frame buffer per picture and never frees
it; 4 MB/s for minutes, in a thread.
"""

import ctypes
import threading
import time

from _stage import ready

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p


def decode(size):
    p = libc.malloc(ctypes.c_size_t(size))
    ctypes.memset(p, 7, size)
    return ctypes.string_at(p, 16)


def run():
    for n in range(16000):
        decode(80_000)
        if n == 1500:
            ready()
        if n > 1500:
            time.sleep(0.02)
    time.sleep(1e6)


t = threading.Thread(target=run, name="decoder")
t.start()
t.join()
