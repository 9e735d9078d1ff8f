"""DIAGNOSIS leak.threads: one threading.Timer of a day per reminder: 800 threads sleep in timed
waits.
"""

import threading
import time

from _stage import ready

threading.stack_size(64 * 1024)


def remind(n):
    print("reminder", n)


timers = []
for n in range(800):
    t = threading.Timer(86400 + n, remind, (n,))
    t.daemon = True
    t.start()
    timers.append(t)
ready()
while True:
    time.sleep(1)
