"""DIAGNOSIS leak.memory_native: an in-memory SQLite table that only grows (malloc inside
libsqlite3: Python's heap is small and constant).
"""

import sqlite3
import time

from _stage import ready

c = sqlite3.connect(":memory:")
c.execute("create table log(at real, line blob)")


def record(kb):
    c.execute("insert into log values (?, zeroblob(?))", (time.time(), kb << 10))


n = 0
while n < 9000:
    record(100)
    n += 1
    if n == 1200:
        ready()
    if n > 1200:
        time.sleep(0.02)
time.sleep(1e6)
