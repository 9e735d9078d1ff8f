"""DIAGNOSIS leak.fds: temporary files of every upload stay open (already unlinked); 243 of 256
descriptors are used.
"""

# ruff: noqa: SIM115

import resource
import tempfile
import time

from _stage import ready

resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))


class Upload:
    def __init__(self, n):
        self.body = tempfile.TemporaryFile(prefix=f"upload_{n}_")
        self.body.write(b"data" * 10)


kept = [Upload(n) for n in range(240)]
ready()
while True:
    time.sleep(0.3)
