"""DIAGNOSIS deadlock.in_process: a logging handler's emit() takes the state lock while a thread
that holds the state lock logs (handler lock against state lock).
"""

import logging
import threading
import time

from _stage import ready

state = threading.Lock()
counts = {}


class Counting(logging.Handler):
    def emit(self, record):
        time.sleep(0.3)
        with state:
            counts[record.levelname] = counts.get(record.levelname, 0) + 1


log = logging.getLogger("svc")
log.addHandler(Counting())
log.propagate = False


def request():
    log.warning("slow request")


def reload():
    with state:
        time.sleep(0.15)
        log.warning("configuration reloaded")


ts = [threading.Thread(target=f, name=f.__name__) for f in (request, reload)]
[t.start() for t in ts]
time.sleep(0.8)
ready()
[t.join() for t in ts]
