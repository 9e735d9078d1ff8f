"""DIAGNOSIS leak.memory_native: anonymous mmap regions for map tiles are filled and kept for ever;
RSS grows outside Python's heap.
"""

import mmap
import time

from _stage import ready

tiles = {}


def load_tile(z, x):
    m = mmap.mmap(-1, 1 << 20)
    for off in range(0, 1 << 20, mmap.PAGESIZE):
        m[off] = 1
    tiles[z, x] = m


n = 0
while n < 400:
    load_tile(1, n)
    n += 1
ready()
while n < 3000:
    load_tile(2, n)
    n += 1
    time.sleep(0.04)
time.sleep(1e6)
