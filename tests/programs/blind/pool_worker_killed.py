"""DIAGNOSIS wait.no_waker|blocked.child_process|blocked.ipc: multiprocessing.Pool.apply(): the
worker was SIGKILLed (OOM) during the job; the pool replaced it, the result never comes.
"""

import multiprocessing as mp
import os
import signal
import threading

from _stage import die_with_parent, ready

ctx = mp.get_context("fork")


def resize(path):
    if path == "huge.tif":
        os.kill(os.getpid(), signal.SIGKILL)
    return path


pool = ctx.Pool(2, initializer=die_with_parent)
print(pool.map(resize, ["a.png", "b.png"]))
threading.Timer(0.6, ready).start()
print(pool.apply(resize, ("huge.tif",)))
