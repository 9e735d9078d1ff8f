"""DIAGNOSIS zombie.process|none.exited: dies of SIGSEGV (ctypes wrote to address 8) soon after
READY; its parent has not reaped it or has.
"""

import ctypes
import threading
import time

from _stage import ready


def work():
    time.sleep(0.1)
    ctypes.memset(8, 0, 8)


t = threading.Thread(target=work)
t.start()
ready()
t.join()
