"""DIAGNOSIS deadlock.cross_process|blocked.child_process|blocked.ipc: parent and child send large
messages to each other over one duplex Pipe; both are in send(), nobody reads.
"""

import multiprocessing as mp
import threading

from _stage import die_with_parent, ready

ctx = mp.get_context("fork")
BIG = bytes(4 << 20)


def simulate(conn):
    die_with_parent()
    conn.send(BIG)
    conn.recv()


here, there = ctx.Pipe()
p = ctx.Process(target=simulate, args=(there,), daemon=True)
p.start()
there.close()
threading.Timer(0.5, ready).start()
here.send(BIG)
here.recv()
