"""DIAGNOSIS blocked.ipc|wait.no_waker|blocked.child_process: multiprocessing.Queue.get() after the
producer process crashed; we ourselves keep the write end open, so there is no EOF.
"""

import multiprocessing as mp
import os
import time

from _stage import die_with_parent, ready

ctx = mp.get_context("fork")


def produce(q):
    die_with_parent()
    for n in range(3):
        q.put(n)
    time.sleep(0.2)
    os._exit(9)


q = ctx.Queue()
p = ctx.Process(target=produce, args=(q,))
p.start()
for n in range(10):
    if n == 3:
        p.join()
        ready()
    q.get()
