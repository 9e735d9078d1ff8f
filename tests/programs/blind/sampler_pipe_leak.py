"""DIAGNOSIS leak.fds: os.pipe() pairs are made for every job and never closed; nearly all of
RLIMIT_NOFILE (512) is used.
"""

import os
import resource
import time

from _stage import ready

resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))


class Job:
    def __init__(self, n):
        self.n = n
        self.rd, self.wr = os.pipe()

    def run(self):
        os.write(self.wr, b"done")
        return os.read(self.rd, 4)


finished = []
for n in range(248):
    j = Job(n)
    j.run()
    finished.append(j)
ready()
while True:
    time.sleep(0.25)
