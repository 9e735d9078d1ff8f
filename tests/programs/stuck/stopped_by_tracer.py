"""DIAGNOSIS stopped.traced: a debugger has attached to it and keeps it stopped."""

import ctypes
import os
import signal
import time
from collections.abc import Callable

from _stage import beside, cannot, ready

PTRACE_ATTACH = 16


def attach(tell: Callable[[str], None]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    parent = os.getppid()
    tell("")
    time.sleep(0.1)
    if libc.ptrace(PTRACE_ATTACH, parent, None, None) != 0:
        cannot(f"ptrace: {os.strerror(ctypes.get_errno())}")
    signal.pause()


beside(attach)
ready()
while True:
    time.sleep(0.05)
