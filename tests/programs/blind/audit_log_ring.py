"""DIAGNOSIS deadlock.in_process: thread 1 holds the store's lock and logs; thread 2 is inside the
logging handler (handler RLock) and its emit() asks the store.
"""

import logging
import threading
import time

from _stage import ready


class Store:
    def __init__(self):
        self.lock = threading.Lock()
        self.rows = {}

    def put(self, k, v):
        with self.lock:
            time.sleep(0.3)
            log.info("stored %s", k)
            self.rows[k] = v

    def depth(self):
        with self.lock:
            return len(self.rows)


class DepthHandler(logging.Handler):
    def emit(self, record):
        time.sleep(0.1)
        record.depth = store.depth()


store = Store()
log = logging.getLogger("store")
log.setLevel(logging.INFO)
log.propagate = False
log.addHandler(DepthHandler())
w1 = threading.Thread(target=store.put, args=("order-1", 1), name="writer")
w2 = threading.Thread(target=lambda: (time.sleep(0.25), log.info("tick")), name="ticker")
w1.start()
w2.start()
time.sleep(1.0)
ready()
w1.join()
w2.join()
