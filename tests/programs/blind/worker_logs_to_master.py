"""DIAGNOSIS blocked.supervisor_pipe|blocked.ipc: READY is a worker that logs to stderr, a pipe its
master (parent) does not read; one thread is in write() with the handler's lock, the others queue
for that lock.
"""

import logging
import os
import subprocess
import sys
import threading
import time

from _role import role
from _stage import die_with_parent, ready

if role() != "worker":
    p = subprocess.Popen(
        [sys.executable, os.path.abspath(__file__)],
        env=dict(os.environ, STUCK_ROLE="worker"),
        stderr=subprocess.PIPE,
        preexec_fn=die_with_parent,
    )
    while p.poll() is None:
        time.sleep(5)
    sys.exit()

logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(threadName)s %(message)s")
log = logging.getLogger("job")


def job(n):
    for i in range(100_000):
        log.debug("job %d step %d %s", n, i, "-" * 100)


ts = [threading.Thread(target=job, args=(n,), name=f"job-{n}", daemon=True) for n in range(3)]
[t.start() for t in ts]
time.sleep(0.7)
ready()
[t.join() for t in ts]
