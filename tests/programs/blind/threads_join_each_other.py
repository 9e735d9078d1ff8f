"""DIAGNOSIS deadlock.in_process: the uploader joins the encoder and the encoder joins the uploader,
each to be the last.
"""

import threading
import time

from _stage import ready

threads = {}


def encoder():
    time.sleep(0.2)
    threads["uploader"].join()


def uploader():
    time.sleep(0.2)
    threads["encoder"].join()


for f in (encoder, uploader):
    threads[f.__name__] = threading.Thread(target=f, name=f.__name__, daemon=True)
for t in threads.values():
    t.start()
time.sleep(0.6)
ready()
while any(t.is_alive() for t in threads.values()):
    time.sleep(2)
