"""DIAGNOSIS none.progressing (control): six threads share an RLock-guarded statistics object;
always somebody waits, but all make progress.
"""

import threading
import time
import zlib

from _stage import ready


class Stats:
    def __init__(self):
        self.lock = threading.RLock()
        self.n = {}

    def bump(self, key):
        with self.lock:
            self.n[key] = self.n.get(key, 0) + 1
            time.sleep(0.003)


stats = Stats()


def client(n):
    i = 0
    while True:
        zlib.crc32(bytes(1000))
        stats.bump((n, i % 10))
        i += 1


for n in range(6):
    threading.Thread(target=client, args=(n,), name=f"client-{n}", daemon=True).start()
ready()
while True:
    time.sleep(1)
