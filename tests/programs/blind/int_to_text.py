"""DIAGNOSIS busy.native_gil: str() of an integer of some million digits (quadratic, one C call with
the GIL).
"""

import sys
import threading
import time

from _stage import ready

sys.set_int_max_str_digits(0)


def tick():
    while True:
        time.sleep(0.2)


threading.Thread(target=tick, daemon=True).start()


def export(n):
    return str(n)


n = (1 << 24_000_000) + 12345
ready()
export(n)
