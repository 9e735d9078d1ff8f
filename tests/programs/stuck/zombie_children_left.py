"""DIAGNOSIS leak.zombies: forty children have ended and nobody has asked for their exit codes."""

import os
import time

from _stage import LONG_S, ready


def notify() -> None:
    if os.fork() == 0:
        os._exit(0)


for _ in range(40):
    notify()
ready()
time.sleep(LONG_S)
