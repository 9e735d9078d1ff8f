"""DIAGNOSIS deadlock.cross_process: both permits of a multiprocessing.BoundedSemaphore were taken
by children that were SIGKILLed; acquire() waits in sem_wait.
"""

import multiprocessing as mp
import os
import signal

from _stage import ready


def child(s):
    s.acquire()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    ctx = mp.get_context("fork")
    slots = ctx.BoundedSemaphore(2)
    for _ in range(2):
        p = ctx.Process(target=child, args=(slots,))
        p.start()
        p.join()
    ready()
    with slots:
        print("mine")
