"""DIAGNOSIS wait.no_waker: main waits for the event "cache is warm"; the warming thread failed
before set().
"""

import threading
import time

from _stage import ready


class Cache:
    def __init__(self):
        self.warm = threading.Event()

    def fill(self):
        rows = [1, 2, None]
        print(sum(rows))
        self.warm.set()


c = Cache()
t = threading.Thread(target=c.fill, name="warmer")
t.start()
time.sleep(0.1)
ready()
c.warm.wait()
print("serving")
