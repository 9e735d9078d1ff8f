"""DIAGNOSIS deadlock.in_process: reader and writer threads each join() the other before they end; a
cycle without any user lock. Main serves ticks meanwhile.
"""

import threading
import time

from _stage import ready

th = {}


def reader():
    time.sleep(0.2)
    th["writer"].join()


def writer():
    time.sleep(0.2)
    th["reader"].join()


for f in (reader, writer):
    th[f.__name__] = threading.Thread(target=f, name=f.__name__, daemon=True)
for t in th.values():
    t.start()
time.sleep(0.5)
ready()
while True:
    time.sleep(1)
