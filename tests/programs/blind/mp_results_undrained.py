"""DIAGNOSIS blocked.child_process|deadlock.cross_process: Process.join() before the results Queue
is drained: the child's feeder thread is blocked in a full pipe that only we could read.
"""

import multiprocessing as mp
import threading

from _stage import die_with_parent, ready

ctx = mp.get_context("fork")


def crunch(out, n):
    die_with_parent()
    for i in range(n):
        out.put({"i": i, "blob": "x" * 5000})


out = ctx.Queue()
p = ctx.Process(target=crunch, args=(out, 200), name="crunch")
p.start()
threading.Timer(0.5, ready).start()
p.join()
print(out.get())
