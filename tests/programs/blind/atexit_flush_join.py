"""DIAGNOSIS exit.hung_shutdown|wait.no_waker: an atexit handler joins a daemon flusher thread which
waits in queue.get() for a stop mark that was never put.
"""

# ruff: noqa: F841

import atexit
import queue
import threading

from _stage import ready


class Telemetry:
    def __init__(self):
        self.q = queue.Queue()
        self.t = threading.Thread(target=self.flush, daemon=True, name="telemetry")
        self.t.start()
        atexit.register(self.close)

    def flush(self):
        while (item := self.q.get()) is not None:
            pass

    def close(self):
        ready()
        self.t.join()


t = Telemetry()
t.q.put("start")
