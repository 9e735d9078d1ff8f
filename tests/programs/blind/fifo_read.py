"""DIAGNOSIS blocked.ipc: reads commands from a FIFO that it opened read-write (so no EOF); nobody
writes.
"""

import os
import tempfile

from _stage import ready

p = os.path.join(tempfile.gettempdir(), f"cmd_{os.getpid()}")
os.mkfifo(p)
fd = os.open(p, os.O_RDWR)
os.unlink(p)


def commands():
    while True:
        yield os.read(fd, 100)


ready()
for c in commands():
    print(c)
