"""DIAGNOSIS blocked.file_lock: fcntl.lockf() on bytes 100–199; another process holds bytes 150–159
of the spool file.
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

f = (
    tempfile.NamedTemporaryFile(prefix="file_", delete=False)
    if not role()
    else open(sys.argv[2], "r+b")
)
if role() == "holder":
    fcntl.lockf(f, fcntl.LOCK_EX, 10, 150)
    os.unlink(f.name)
    print("held", flush=True)
    time.sleep(1e6)
p = play("holder", f.name, stdout=subprocess.PIPE, text=True)
p.stdout.readline()


def reserve(first, n):
    fcntl.lockf(f, fcntl.LOCK_EX, n, first)


reserve(0, 100)
ready()
reserve(100, 100)
