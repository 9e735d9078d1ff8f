"""DIAGNOSIS blocked.sleep|none.idle: sched.scheduler.run(): the next event is due in weeks because
its time was given in milliseconds.
"""

import sched
import time

from _stage import ready

s = sched.scheduler(time.time, time.sleep)


def send_digest():
    pass


s.enter(0.05, 1, ready)
s.enter(5_000_000, 1, send_digest)
s.run()
