"""DIAGNOSIS deadlock.cross_process: parent and child take two multiprocessing locks (a Value's
RLock and a Lock) in opposite order; a thread of the parent ticks.
"""

import multiprocessing as mp
import threading
import time

from _stage import die_with_parent, ready


def child(v, lock):
    die_with_parent()
    with lock:
        time.sleep(0.4)
        with v.get_lock():
            v.value += 1


def tick():
    while True:
        time.sleep(0.3)


if __name__ == "__main__":
    ctx = mp.get_context("fork")
    v, lock = ctx.Value("i", 0), ctx.Lock()
    p = ctx.Process(target=child, args=(v, lock))
    p.start()
    threading.Thread(target=tick, daemon=True).start()
    with v.get_lock():
        time.sleep(0.6)
        ready()
        with lock:
            v.value += 1
