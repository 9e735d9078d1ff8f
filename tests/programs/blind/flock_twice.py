"""DIAGNOSIS blocked.file_lock|deadlock.in_process: flock() on a second descriptor of the same file:
the holder is this very process.
"""

import fcntl
import os
import tempfile

from _stage import ready

path = os.path.join(tempfile.gettempdir(), f"pid_{os.getpid()}")


class PidFile:
    def __enter__(self):
        self.f = open(path, "w")
        fcntl.flock(self.f, fcntl.LOCK_EX)
        return self

    def __exit__(self, *a):
        self.f.close()


def rotate():
    with PidFile():
        return 1


with PidFile():
    ready()
    rotate()
