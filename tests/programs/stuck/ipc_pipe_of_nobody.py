"""DIAGNOSIS blocked.ipc: a pipe is read whose writing end only this process itself has open."""

import os

from _stage import ready

reading, writing = os.pipe()
ready()
print(os.read(reading, 100), writing)
