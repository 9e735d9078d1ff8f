"""DIAGNOSIS none.progressing|none.idle (control): a cron-like scheduler with three periodic jobs of
some milliseconds.
"""

# ruff: noqa: SIM115

import hashlib
import sched
import time

from _stage import ready

s = sched.scheduler(time.monotonic, time.sleep)


def every(dt, job):
    def run():
        job()
        s.enter(dt, 1, run)

    s.enter(dt, 1, run)


def clean():
    sorted(hashlib.md5(str(i).encode()).hexdigest() for i in range(3000))


def metrics():
    open("/proc/self/stat").read().split()


def sync():
    time.sleep(0.02)


every(0.15, clean)
every(0.1, metrics)
every(0.4, sync)
ready()
s.run()
