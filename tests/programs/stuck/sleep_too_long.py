"""DIAGNOSIS blocked.sleep: a pause was meant in milliseconds and is taken in seconds."""

import time

from _stage import ready

PAUSE_MS = 86_400_000


def pause() -> None:
    time.sleep(PAUSE_MS)


ready()
pause()
