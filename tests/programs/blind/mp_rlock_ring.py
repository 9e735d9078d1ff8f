"""DIAGNOSIS deadlock.cross_process: three processes take three multiprocessing RLocks in a ring
(READY is the parent, which is one of the three).
"""

import multiprocessing as mp

from _stage import die_with_parent, ready

ctx = mp.get_context("fork")


def stage(mine, following, barrier, child=True):
    if child:
        die_with_parent()
    with mine:
        barrier.wait()
        if not child:
            ready()
        with following:
            pass


def main():
    locks = [ctx.RLock() for _ in range(3)]
    barrier = ctx.Barrier(3)
    for i in (1, 2):
        ctx.Process(
            target=stage,
            args=(locks[i], locks[(i + 1) % 3], barrier),
            daemon=True,
            name=f"stage-{i}",
        ).start()
    stage(locks[0], locks[1], barrier, child=False)


main()
