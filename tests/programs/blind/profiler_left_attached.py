"""DIAGNOSIS stopped.traced: READY is a child that asked to be traced (PTRACE_TRACEME) and raised
SIGTRAP; its tracer, the parent, sleeps and never continues it.
"""

import ctypes
import os
import signal
import time

from _stage import die_with_parent, ready

libc = ctypes.CDLL(None, use_errno=True)


def workload():
    total = 0
    for n in range(1000):
        total += n
    ready()
    signal.raise_signal(signal.SIGTRAP)
    while True:
        total += 1
        time.sleep(0.01)


pid = os.fork()
if pid == 0:
    die_with_parent()
    libc.ptrace(0, 0, 0, 0)  # PTRACE_TRACEME
    workload()
time.sleep(1e6)
