"""DIAGNOSIS leak.threads: a threading.Timer for each session (an hour): 900 threads."""

import threading
import time

from _stage import ready

threading.stack_size(256 * 1024)


def expire(n):
    pass


def touch(n):
    t = threading.Timer(3600, expire, (n,))
    t.daemon = True
    t.start()


for n in range(900):
    touch(n)
ready()
while True:
    time.sleep(0.5)
