"""DIAGNOSIS blocked.child_process: ProcessPoolExecutor: result() of a job whose worker process
sleeps for ever.
"""

import time
from concurrent.futures import ProcessPoolExecutor

from _stage import die_with_parent, ready


def job(n):
    time.sleep(0.01 if n else 1e6)
    return n


if __name__ == "__main__":
    with ProcessPoolExecutor(2, initializer=die_with_parent) as pool:
        fs = [pool.submit(job, n) for n in range(4)]
        time.sleep(0.5)
        ready()
        print([f.result() for f in fs])
