"""DIAGNOSIS deadlock.in_process: the importer thread took the lock with acquire(), died of a
KeyError and never released it; the writer and the main thread wait for an owner that is gone.
"""

import threading
import time

from _stage import ready


class Store:
    def __init__(self):
        self.guard = threading.Lock()
        self.rows = {}

    def load(self, row):
        self.guard.acquire()
        self.rows[row["id"]] = row["name"]
        self.guard.release()


store = Store()


def importer():
    for row in ({"id": 1, "name": "a"}, {"id": 2}):
        store.load(row)


def writer():
    store.load({"id": 3, "name": "c"})


t = threading.Thread(target=importer, name="importer")
t.start()
t.join()
w = threading.Thread(target=writer, name="writer")
w.start()
time.sleep(0.2)
ready()
store.load({"id": 4, "name": "d"})
