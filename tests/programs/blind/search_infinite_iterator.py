"""DIAGNOSIS busy.native_gil: `x in itertools.cycle(...)` never ends: the loop is in C inside one
bytecode with the GIL held; a second thread starves.
"""

import itertools
import threading
import time

from _stage import ready


def ping():
    while True:
        time.sleep(0.05)


def is_known(code, codes):
    return code in itertools.cycle(codes)


threading.Thread(target=ping, daemon=True, name="ping").start()
time.sleep(0.2)
ready()
is_known(-1, range(10_000))
