"""DIAGNOSIS busy.python: any() over a generator expression on an endless count(): one line, no
progress, Python frames run (the GIL is handed over).
"""

import itertools
import threading
import time

from _stage import ready


def log():
    while True:
        time.sleep(0.5)


threading.Thread(target=log, daemon=True).start()


def first_free(used):
    return any(n not in used and n < 0 for n in itertools.count())


ready()
first_free({1, 2, 3})
