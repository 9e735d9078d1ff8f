"""DIAGNOSIS deadlock.cross_process: multiprocessing.Semaphore(2) of licences: both holders were
killed; the units are lost, acquire() waits for ever.
"""

import multiprocessing as mp
import time

from _stage import die_with_parent, ready

ctx = mp.get_context("fork")


def solver(licences, started):
    die_with_parent()
    with licences:
        started.set()
        time.sleep(1e6)


licences = ctx.Semaphore(2)
for _n in range(2):
    ev = ctx.Event()
    p = ctx.Process(target=solver, args=(licences, ev))
    p.start()
    ev.wait()
    p.kill()
    p.join()
ready()
with licences:
    print("solving")
