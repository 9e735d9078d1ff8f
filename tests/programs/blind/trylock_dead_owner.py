"""DIAGNOSIS blocked.polling|deadlock.in_process: acquire(timeout=0.2) again and again on a lock
whose owner thread died holding it.
"""

import threading

from _stage import ready

lock = threading.Lock()


def crash():
    lock.acquire()
    raise RuntimeError


t = threading.Thread(target=crash)
t.start()
t.join()


def enter():
    while not lock.acquire(timeout=0.2):
        pass


ready()
enter()
