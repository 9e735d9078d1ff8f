"""DIAGNOSIS busy.native_gil: str() of a huge int (quadratic conversion in C, one bytecode, GIL
held) while other threads starve.
"""

import sys
import threading
import time

from _stage import ready

sys.set_int_max_str_digits(0)


def heartbeat():
    while True:
        time.sleep(0.1)


def fingerprint(values):
    acc = 1
    for v in values:
        acc = (acc << 40_000) | v
    ready()
    return str(acc)


threading.Thread(target=heartbeat, daemon=True).start()
fingerprint([(1 << 39_999) + 3 * i for i in range(1500)])
