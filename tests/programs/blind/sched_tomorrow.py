"""DIAGNOSIS blocked.sleep: sched.scheduler.run() sleeps until its only event, tomorrow."""

import sched
import time

from _stage import ready

s = sched.scheduler(time.time, time.sleep)
s.enterabs(time.time() + 90000, 1, print, ("report",))
ready()
s.run()
