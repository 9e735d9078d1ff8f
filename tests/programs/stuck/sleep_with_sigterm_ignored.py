"""DIAGNOSIS blocked.sleep: a long sleep, in a process that does not heed SIGTERM."""

import signal
import time

from _stage import LONG_S, ready

signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)


def back_off(attempt: int) -> None:
    time.sleep(LONG_S * attempt)


ready()
back_off(3)
