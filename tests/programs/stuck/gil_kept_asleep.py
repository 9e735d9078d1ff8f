"""DIAGNOSIS blocked.native_gil: a C function sleeps for ever and keeps the GIL meanwhile."""

import threading
import time

from _stage import native_with_gil, ready

library = native_with_gil()


def tick() -> None:
    while True:
        time.sleep(0.1)


threading.Thread(target=tick, name="tick", daemon=True).start()
time.sleep(0.2)
ready()
library.doze_for_ever()
