"""DIAGNOSIS blocked.child_process|wait.no_waker: multiprocessing.Pool.apply() of a job whose worker
was SIGKILLed (out of memory): the pool replaces the worker, the result never comes.
"""

import multiprocessing as mp
import os
import signal
import time

from _stage import die_with_parent, ready


def job(n):
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    with mp.get_context("fork").Pool(1, die_with_parent) as pool:
        r = pool.apply_async(job, (1,))
        time.sleep(1)
        ready()
        r.get()
