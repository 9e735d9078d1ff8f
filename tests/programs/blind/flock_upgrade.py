"""DIAGNOSIS blocked.file_lock|deadlock.cross_process: two processes hold a shared flock() on the
index and both ask for the exclusive one through second descriptors.
"""

# ruff: noqa: SIM115

import fcntl
import os
import subprocess
import sys
import tempfile
import time

from _role import play, role
from _stage import ready

path = sys.argv[2] if role() else os.path.join(tempfile.mkdtemp(prefix="files_"), "index.lock")
shared = open(path, "a")
fcntl.flock(shared, fcntl.LOCK_SH)
if role() == "twin":
    print("shared", flush=True)
    time.sleep(0.3)
else:
    p = play("twin", path, stdout=subprocess.PIPE, text=True)
    p.stdout.readline()
    ready()


def rebuild_index():
    with open(path, "a") as exclusive:
        fcntl.flock(exclusive, fcntl.LOCK_EX)


rebuild_index()
