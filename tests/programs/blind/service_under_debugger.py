"""DIAGNOSIS stopped.traced: a tracer (helper) seized the process with ptrace and interrupted every
thread; it never continues them.
"""

import ctypes
import os
import subprocess
import sys
import time

from _role import play, role
from _stage import ready

if role() == "tracer":
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long] * 4
    libc.ptrace.restype = ctypes.c_long
    target = int(sys.argv[2])
    sys.stdin.readline()
    for tid in map(int, os.listdir(f"/proc/{target}/task")):
        libc.ptrace(0x4206, tid, 0, 0)  # PTRACE_SEIZE
        libc.ptrace(0x4207, tid, 0, 0)  # PTRACE_INTERRUPT
    time.sleep(1e6)


def handle(request):
    time.sleep(0.01)


p = play("tracer", str(os.getpid()), stdin=subprocess.PIPE, text=True)
time.sleep(0.3)
for i in range(20):
    handle(i)
ready()
p.stdin.write("go\n")
p.stdin.flush()
while True:
    handle(0)
