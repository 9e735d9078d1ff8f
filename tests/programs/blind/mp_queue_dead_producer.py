"""DIAGNOSIS blocked.ipc|wait.no_waker: multiprocessing.Queue.get(): the producer process died
before it put anything; only we hold the pipe.
"""

import multiprocessing as mp
import os

from _stage import ready


def produce(q):
    os._exit(3)


if __name__ == "__main__":
    ctx = mp.get_context("fork")
    q = ctx.Queue()
    p = ctx.Process(target=produce, args=(q,))
    p.start()
    p.join()
    ready()
    print(q.get())
