"""DIAGNOSIS stopped.signal: somebody sent SIGSTOP (to debug it) and forgot SIGCONT; it was in the
middle of its work, three threads.
"""

import hashlib
import os
import signal
import sys
import threading
import time

from _role import play, role
from _stage import ready

if role() == "operator":
    time.sleep(0.2)
    os.kill(int(sys.argv[2]), signal.SIGSTOP)
    time.sleep(1e6)


def work():
    while True:
        hashlib.sha256(b"x" * 1000).digest()
        time.sleep(0.01)


for i in range(2):
    threading.Thread(target=work, daemon=True, name=f"work-{i}").start()
ready()
play("operator", str(os.getpid()))
work()
