"""DIAGNOSIS deadlock.in_process: stop() holds the cache's RLock while it joins the refresher
thread, which wants that RLock.
"""

import threading
import time

from _stage import ready


class Cache:
    def __init__(self):
        self._lock = threading.RLock()
        self._stop = False
        self._data = {}
        self._thread = threading.Thread(target=self._refresh, name="refresher")
        self._thread.start()

    def _refresh(self):
        while not self._stop:
            time.sleep(0.2)
            self._store("k", time.time())

    def _store(self, k, v):
        with self._lock:
            self._data[k] = v

    def stop(self):
        with self._lock:
            time.sleep(0.4)
            self._stop = True
            self._data.clear()
            ready()
            self._thread.join()


c = Cache()
time.sleep(0.5)
c.stop()
