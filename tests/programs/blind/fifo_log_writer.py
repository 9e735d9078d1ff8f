"""DIAGNOSIS blocked.ipc: open(fifo, "wb") for a log shipper that is not running: no reader ever
opens the other end.
"""

# ruff: noqa: SIM115

import os
import tempfile

from _stage import ready

path = os.path.join(tempfile.mkdtemp(prefix="files_"), "shipper.fifo")
os.mkfifo(path)


class Shipper:
    def __init__(self, path):
        self.path = path
        self.out = None

    def ensure(self):
        if self.out is None:
            self.out = open(self.path, "wb", buffering=0)
        return self.out

    def ship(self, line):
        self.ensure().write(line)


ready()
Shipper(path).ship(b"started\n")
