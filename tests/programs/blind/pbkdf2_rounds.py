"""DIAGNOSIS busy.native: hashlib.pbkdf2_hmac with 2e9 rounds by mistake: OpenSSL on the CPU without
the GIL, other threads live.
"""

import hashlib
import threading
import time

from _stage import ready


def heartbeat():
    while True:
        time.sleep(0.3)


threading.Thread(target=heartbeat, daemon=True, name="heartbeat").start()


def derive(pw):
    return hashlib.pbkdf2_hmac("sha512", pw, b"salt", 2**31 - 1)


ready()
derive(b"secret")
