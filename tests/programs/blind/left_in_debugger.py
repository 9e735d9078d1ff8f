"""DIAGNOSIS stopped.traced: another process has attached to it with ptrace and sits there (a
forgotten debugger).
"""

import ctypes
import os
import sys
import time

from _role import play, role
from _stage import ready

if role() == "debugger":
    pid = int(sys.argv[2])
    assert ctypes.CDLL(None).ptrace(16, pid, None, None) == 0
    os.waitpid(pid, 0x40000000)
    time.sleep(1e6)


def serve():
    while True:
        time.sleep(0.1)


ready()
play("debugger", str(os.getpid()))
serve()
