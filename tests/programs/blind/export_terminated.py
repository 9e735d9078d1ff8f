"""DIAGNOSIS none.exited|zombie.process: an orchestrator sends SIGTERM while somebody looks; the
handler ends the program at once with code 143.
"""

# ruff: noqa: SIM115

import os
import signal
import sys
import threading
import time

from _role import play, role
from _stage import ready

if role() == "orchestrator":
    target, t0 = int(sys.argv[2]), time.monotonic()

    def observed():
        for p in filter(str.isdigit, os.listdir("/proc")):
            try:
                argv = open(f"/proc/{p}/cmdline", "rb").read().split(b"\0")
            except OSError:
                continue
            if int(p) != os.getpid() and str(target).encode() in argv:
                return True
        return None

    while time.monotonic() - t0 < 2.0 and not observed():
        time.sleep(0.04)
    time.sleep(0.12)
    os.kill(target, signal.SIGTERM)
    sys.exit()


def stop(signum, frame):
    os._exit(128 + signum)


signal.signal(signal.SIGTERM, stop)
threading.Thread(target=time.sleep, args=(3600,), daemon=True, name="uploader").start()
play("orchestrator", str(os.getpid()))
ready()
for _part in range(100_000):
    time.sleep(0.05)
