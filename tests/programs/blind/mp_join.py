"""DIAGNOSIS blocked.child_process: multiprocessing.Process.join() on children which sleep on."""

import multiprocessing as mp
import time

from _stage import die_with_parent, ready


def shard(i):
    die_with_parent()
    time.sleep(0.1 if i else 1e6)


if __name__ == "__main__":
    ps = [mp.get_context("fork").Process(target=shard, args=(i,)) for i in range(3)]
    [p.start() for p in ps]
    time.sleep(0.4)
    ready()
    [p.join() for p in ps]
