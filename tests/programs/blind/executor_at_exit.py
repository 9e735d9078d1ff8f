"""DIAGNOSIS exit.hung_shutdown: main is over; concurrent.futures' exit hook joins a pool thread
whose job waits for an Event.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from _stage import ready

stop = threading.Event()
pool = ThreadPoolExecutor(2)


def watch():
    stop.wait()


pool.submit(watch)
time.sleep(0.2)
ready()
