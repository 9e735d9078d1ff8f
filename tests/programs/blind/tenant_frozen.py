"""DIAGNOSIS stopped.frozen: the freezer cgroup ABOVE the one of this process was frozen (the whole
tenant); the process itself was computing in two threads.
"""

# ruff: noqa: SIM115

import os
import subprocess
import sys
import threading
import time
import zlib

from _role import play, role
from _stage import cannot, ready

BASE = "/sys/fs/cgroup/freezer"
if not os.access(BASE, os.W_OK):
    cannot("there is no freezer of version 1, or no right to use it")
if role() == "tenant":
    if os.fork():  # detached: it must outlive the program a moment
        os._exit(0)
    os.setsid()
    target = int(sys.argv[2])
    top = f"{BASE}/stuck-{target}"
    os.makedirs(f"{top}/job")
    open(f"{top}/job/cgroup.procs", "w").write(str(target))
    print("moved", flush=True)
    sys.stdin.readline()
    try:
        open(f"{top}/freezer.state", "w").write("FROZEN")
        while True:
            time.sleep(0.2)
            st = dict(line.split(":", 1) for line in open(f"/proc/{target}/status") if ":" in line)
            if (int(st["SigPnd"], 16) | int(st["ShdPnd"], 16)) & (1 << 8) or st["State"].strip()[
                0
            ] in "ZX":
                break
    except (OSError, KeyError):
        pass
    open(f"{top}/freezer.state", "w").write("THAWED")
    for _ in range(100):
        try:
            os.rmdir(f"{top}/job")
            break
        except OSError:
            time.sleep(0.1)
    os.rmdir(top)
    sys.exit()


def compress_part(n):
    zlib.compress(bytes(10_000) + n.to_bytes(4, "big"))
    time.sleep(0.005)


def loop():
    for n in range(1 << 30):
        compress_part(n)


p = play("tenant", str(os.getpid()), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
p.stdout.readline()
p.wait()
threading.Thread(target=loop, name="zip", daemon=True).start()
time.sleep(0.2)
ready()
p.stdin.write("go\n")
p.stdin.flush()
loop()
