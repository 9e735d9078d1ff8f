"""DIAGNOSIS blocked.sleep: select() without descriptors and a timeout of five hours, in the thread
that main joins; that thread holds a lock which another wants.
"""

import select
import threading
import time

from _stage import ready

gate = threading.Lock()


def throttle():
    with gate:
        select.select([], [], [], 18000)


def sender():
    with gate:
        pass


t = threading.Thread(target=throttle, name="throttle")
t.start()
time.sleep(0.1)
threading.Thread(target=sender, name="sender").start()
time.sleep(0.1)
ready()
t.join()
