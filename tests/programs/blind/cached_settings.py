"""DIAGNOSIS deadlock.in_process: functools.cached_property's hidden RLock against a lock of ours,
in opposite order in two threads.
"""

import functools
import threading
import time

from _stage import ready

reload_lock = threading.Lock()


class Settings:
    @functools.cached_property
    def plugins(self):
        time.sleep(0.3)
        with reload_lock:
            return ["a", "b"]


s = Settings()


def request():
    return len(s.plugins)


def reload():
    with reload_lock:
        time.sleep(0.15)
        return len(Settings().plugins)


ts = [threading.Thread(target=f, name=f.__name__) for f in (request, reload)]
[t.start() for t in ts]
time.sleep(0.9)
ready()
[t.join() for t in ts]
