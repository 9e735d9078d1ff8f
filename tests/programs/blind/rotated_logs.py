"""DIAGNOSIS leak.fds: every rotation keeps the old log file open: 490 of 512 descriptors; the
service still ticks.
"""

import os
import resource
import tempfile
import time

from _stage import ready

resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
d = tempfile.mkdtemp(prefix="file_")
old = []


def rotate(n):
    path = f"{d}/app.log.{n}"
    old.append(os.open(path, os.O_CREAT | os.O_WRONLY))
    os.unlink(path)


for n in range(485):
    rotate(n)
os.rmdir(d)
ready()
while True:
    time.sleep(0.5)
    os.write(old[-1], b"tick\n")
