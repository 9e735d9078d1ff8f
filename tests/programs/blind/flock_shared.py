"""DIAGNOSIS blocked.file_lock: wants a shared flock; another process holds the exclusive one. Taken
in a thread, three more wait for the Python lock around it.
"""

# ruff: noqa: SIM115

import fcntl
import os
import subprocess
import sys
import tempfile
import threading
import time

from _role import play, role
from _stage import ready

f = tempfile.NamedTemporaryFile(prefix="file_", delete=False) if not role() else open(sys.argv[2])
if role() == "holder":
    fcntl.flock(f, fcntl.LOCK_EX)
    os.unlink(f.name)
    print("held", flush=True)
    time.sleep(1e6)
p = play("holder", f.name, stdout=subprocess.PIPE, text=True)
p.stdout.readline()
guard = threading.Lock()


def read_cache():
    with guard:
        fcntl.flock(f, fcntl.LOCK_SH)


ts = [threading.Thread(target=read_cache) for _ in range(4)]
[t.start() for t in ts]
time.sleep(0.2)
ready()
[t.join() for t in ts]
