"""DIAGNOSIS blocked.file_lock|blocked.polling: filelock-style loop: flock(LOCK_EX|LOCK_NB) every 50
ms on a file that another process holds.
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

if role() == "other":
    f = open(sys.argv[2], "w")
    fcntl.flock(f, fcntl.LOCK_EX)
    print("held", flush=True)
    time.sleep(1e6)


class FileLock:
    def __init__(self, path, poll=0.05):
        self.path, self.poll, self.fd = path, poll, None

    def acquire(self):
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT)
        while True:
            try:
                fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                time.sleep(self.poll)


path = os.path.join(tempfile.mkdtemp(prefix="files_"), "deploy.lock")
p = play("other", path, stdout=subprocess.PIPE, text=True)
p.stdout.readline()
ready()
FileLock(path).acquire()
