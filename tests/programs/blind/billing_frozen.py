"""DIAGNOSIS stopped.frozen: a helper put the process into a freezer cgroup (v1) and froze it, in
the middle of ordinary work.
"""

# ruff: noqa: SIM115

import hashlib
import os
import subprocess
import sys
import time

from _role import play, role
from _stage import cannot, ready

BASE = "/sys/fs/cgroup/freezer"
if not os.access(BASE, os.W_OK):
    cannot("there is no freezer of version 1, or no right to use it")


def freezer(target):
    """Freeze TARGET; thaw it when somebody has sent it SIGKILL."""
    cg = f"{BASE}/stuck-{target}"
    os.makedirs(cg, exist_ok=True)
    try:
        open(f"{cg}/cgroup.procs", "w").write(str(target))
        sys.stdin.readline()
        open(f"{cg}/freezer.state", "w").write("FROZEN")
        while True:
            time.sleep(0.2)
            st = dict(line.split(":", 1) for line in open(f"/proc/{target}/status") if ":" in line)
            if (int(st["SigPnd"], 16) | int(st["ShdPnd"], 16)) & (1 << 8) or st["State"].strip()[
                0
            ] in "ZX":
                break
    except (OSError, KeyError):
        pass
    open(f"{cg}/freezer.state", "w").write("THAWED")
    for _ in range(100):
        try:
            os.rmdir(cg)
            return
        except OSError:
            time.sleep(0.1)


def invoice(n):
    hashlib.sha256(str(n).encode() * 50).hexdigest()
    time.sleep(0.01)


if role() == "freezer":
    if os.fork():  # detached: it must outlive the program a moment
        os._exit(0)
    os.setsid()
    freezer(int(sys.argv[2]))
else:
    p = play("freezer", str(os.getpid()), stdin=subprocess.PIPE, text=True)
    p.wait()
    n = 0
    told = False
    while True:
        invoice(n)
        n += 1
        if not told and f"stuck-{os.getpid()}" in open("/proc/self/cgroup").read():
            told = True
            ready()
            p.stdin.write("go\n")
            p.stdin.flush()
