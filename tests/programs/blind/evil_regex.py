"""DIAGNOSIS busy.native_gil: catastrophic backtracking in re.match in a worker thread; main and a
heartbeat thread starve.
"""

import re
import threading
import time

from _stage import ready


def heartbeat():
    while True:
        time.sleep(0.1)


def validate(s):
    return re.match(r"^([a-zA-Z0-9]+\.?)+@x$", s)


threading.Thread(target=heartbeat, daemon=True, name="heartbeat").start()
ready()
t = threading.Thread(target=validate, args=("a" * 64 + "!",), name="validator")
t.start()
t.join()
