"""DIAGNOSIS deadlock.in_process: two daemon threads hold each other's lock; main prints statistics
every second and other pool threads idle in timed waits.
"""

import queue
import threading
import time

from _stage import ready

widgets, layout = threading.RLock(), threading.Lock()
inbox = queue.Queue()


def refresh_widgets():
    while True:
        with widgets:
            time.sleep(0.1)
            place("clock")


def place(widget):
    with layout:
        pass


def resize():
    while True:
        with layout:
            time.sleep(0.12)
            redraw()


def redraw():
    with widgets:
        pass


def consume():
    while True:
        try:
            inbox.get(timeout=0.7)
        except queue.Empty:
            pass


for f in (refresh_widgets, resize, consume, consume):
    threading.Thread(target=f, daemon=True).start()
time.sleep(1.0)
ready()
while True:
    time.sleep(1.0)
    size = inbox.qsize()
