"""DIAGNOSIS busy.native: hashlib.pbkdf2_hmac with an absurd number of iterations; C code on the CPU
with the GIL released, other threads are alive.
"""

import hashlib
import threading
import time

from _stage import ready


def stats():
    while True:
        time.sleep(0.2)


def rehash(user, iterations):
    return hashlib.pbkdf2_hmac("sha512", b"pw", user.encode(), iterations)


threading.Thread(target=stats, daemon=True, name="stats").start()
ready()
rehash("alice", 2_000_000_000)
