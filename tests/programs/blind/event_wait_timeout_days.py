"""DIAGNOSIS wait.no_waker|blocked.sleep: Event.wait(timeout=99999) for a configuration that no
thread will deliver.
"""

import threading

from _stage import ready


class Config:
    loaded = threading.Event()

    def value(self, key):
        if not self.loaded.wait(99999):
            raise TimeoutError(key)


ready()
Config().value("dsn")
