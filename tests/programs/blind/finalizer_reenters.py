"""DIAGNOSIS deadlock.in_process: the garbage collector runs __del__ of a handle inside
Registry.add(), and it wants the registry's lock, which this frame holds.
"""

import gc
import threading

from _stage import ready


class Registry:
    def __init__(self):
        self.lock = threading.Lock()
        self.open = set()

    def add(self, h):
        with self.lock:
            self.open.add(id(h))
            history = [{"h": n, "self": []} for n in range(2000)]  # allocates: the collector runs
            gc.collect()
            return len(history)

    def drop(self, key):
        with self.lock:
            self.open.discard(key)


registry = Registry()


class Handle:
    def __init__(self):
        self.me = self  # a cycle
        registry.add(self)

    def __del__(self):
        registry.drop(id(self))


gc.disable()
Handle()
ready()
Handle()
