"""DIAGNOSIS deadlock.in_process: a SIGHUP handler takes the configuration lock which the
interrupted main frame itself holds.
"""

import os
import signal
import threading
import time

from _stage import ready

conf_lock = threading.Lock()
conf = {"rate": 10}


def reload_config(signum, frame):
    with conf_lock:
        conf["rate"] += 1


def apply_config():
    with conf_lock:
        ready()
        os.kill(os.getpid(), signal.SIGHUP)
        for _ in range(1000):
            time.sleep(0.001)


def flusher():
    while True:
        time.sleep(1)


signal.signal(signal.SIGHUP, reload_config)
threading.Thread(target=flusher, daemon=True, name="flusher").start()
apply_config()
