"""DIAGNOSIS blocked.supervisor_pipe: logging to stderr, a pipe that the supervisor stopped
draining: one thread is in write() with the handler's lock, the others wait for that lock.
"""

import logging
import os
import threading
import time

from _stage import die_with_parent, ready

r, w = os.pipe()
if os.fork():
    os.close(w)
    os.wait()
    os._exit(0)
die_with_parent()
os.close(r)
os.dup2(w, 2)
os.close(w)
logging.basicConfig(level="INFO")
log = logging.getLogger("svc")


def work():
    while True:
        log.info("handled one request")
        time.sleep(0.0005)


for i in range(4):
    threading.Thread(target=work, daemon=True, name=f"w-{i}").start()
time.sleep(1.5)
ready()
work()
