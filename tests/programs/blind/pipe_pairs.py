"""DIAGNOSIS leak.fds: a wake-up pipe per request is never closed: 980 of 1024 descriptors, idle
otherwise.
"""

import os
import resource
import threading
import time

from _stage import ready

resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))


class Waiter:
    def __init__(self):
        self.r, self.w = os.pipe()


waiters = [Waiter() for _ in range(488)]
t = threading.Thread(target=time.sleep, args=(1e6,), daemon=True)
t.start()
ready()
t.join()
