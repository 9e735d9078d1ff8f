"""DIAGNOSIS stopped.frozen: a helper put it in a frozen cgroup (v1 freezer), as a paused container;
the helper thaws it when a SIGKILL is pending.
"""

# ruff: noqa: E741, SIM115

import os
import subprocess
import sys
import time

from _role import role
from _stage import cannot, ready

if not os.access("/sys/fs/cgroup/freezer", os.W_OK):
    cannot("there is no freezer of version 1, or no right to use it")
if role() == "pauser":
    pid = sys.argv[2]
    d = f"/sys/fs/cgroup/freezer/stuck-{pid}"
    os.mkdir(d)

    def put(n, v):
        open(f"{d}/{n}", "w").write(v)

    put("cgroup.procs", pid)
    time.sleep(0.2)
    put("freezer.state", "FROZEN")
    while os.path.exists(f"/proc/{pid}/status"):
        s = open(f"/proc/{pid}/status").read()
        if (
            any(
                int(l.split()[1], 16) & 256 for l in s.splitlines() if l[:6] in ("ShdPnd", "SigPnd")
            )
            or "Z (" in s
        ):
            break
        time.sleep(0.1)
    put("freezer.state", "THAWED")
    for _ in range(50):
        try:
            os.rmdir(d)
            break
        except OSError:
            time.sleep(0.1)
    os._exit(0)


def serve():
    while True:
        time.sleep(0.1)


env = dict(os.environ, STUCK_ROLE="pauser")
env.pop("STUCK_READY", None)
subprocess.Popen(
    [sys.executable, os.path.abspath(__file__), "x", str(os.getpid())],
    env=env,
    stdin=subprocess.DEVNULL,
)
ready()
serve()
