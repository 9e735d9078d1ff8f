"""DIAGNOSIS stopped.signal: somebody has sent it a SIGSTOP; nothing else is wrong with it."""

import os
import signal

from _stage import ready


def count() -> None:
    for number in range(10**9):
        if number == 100_000:
            ready()
            os.kill(os.getpid(), signal.SIGSTOP)


count()
