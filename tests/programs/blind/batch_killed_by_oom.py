"""DIAGNOSIS none.exited|zombie.process: the batch is killed (as by the OOM killer) while somebody
looks at it; nothing to diagnose but its end by SIGKILL.
"""

# ruff: noqa: SIM115

import os
import signal
import sys
import time

from _role import play, role
from _stage import ready

if role() == "oom":
    target, t0, seen = int(sys.argv[2]), time.monotonic(), None
    while time.monotonic() - t0 < 2.0:  # as soon as an observer has begun, or after two seconds
        for p in filter(str.isdigit, os.listdir("/proc")):
            try:
                argv = open(f"/proc/{p}/cmdline", "rb").read().split(b"\0")
            except OSError:
                continue
            if int(p) != os.getpid() and str(target).encode() in argv:
                seen = p
        if seen:
            time.sleep(0.15)
            break
        time.sleep(0.05)
    os.kill(target, signal.SIGKILL)
    sys.exit()


def load_chunk(n):
    return [bytes(1024) for _ in range(n)]


def run():
    rows = load_chunk(2000)
    ready()
    time.sleep(3600)
    return rows


play("oom", str(os.getpid()))
run()
