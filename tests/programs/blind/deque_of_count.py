"""DIAGNOSIS busy.native_gil: deque(itertools.count(), maxlen=0): one C call that never comes back
to the eval loop and never gives up the GIL.
"""

import collections
import itertools
import threading
import time

from _stage import ready


def heartbeat():
    while True:
        time.sleep(0.1)


threading.Thread(target=heartbeat, daemon=True).start()


def drain(it):
    collections.deque(it, maxlen=0)


time.sleep(0.1)
ready()
drain(itertools.count())
