"""DIAGNOSIS blocked.supervisor_pipe|blocked.ipc: READY is a worker whose stdout is a pipe to its
launcher (its parent process), which never reads it; print() blocks.
"""

import os
import subprocess
import sys
import time

from _role import role
from _stage import die_with_parent, ready

if role() != "worker":
    worker = subprocess.Popen(
        [sys.executable, os.path.abspath(__file__)],
        env=dict(os.environ, STUCK_ROLE="worker"),
        stdout=subprocess.PIPE,
        preexec_fn=die_with_parent,
    )
    time.sleep(1e6)


def transform(i):
    return {"row": i, "pad": "x" * 200}


def export(rows):
    for i in range(rows):
        if i == 200:
            ready()
        print("progress", transform(i), flush=True)


export(100_000)
