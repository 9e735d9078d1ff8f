"""DIAGNOSIS busy.native: hashlib.scrypt with a huge p in a thread (GIL released); main polls an
Event with a timeout and shows a spinner.
"""

import hashlib
import threading
import time

from _stage import ready

done = threading.Event()


def derive(pw):
    key = hashlib.scrypt(pw, salt=b"salt", n=2**14, r=8, p=60_000, maxmem=1 << 30)
    done.set()
    return key


threading.Thread(target=derive, args=(b"secret",), daemon=True, name="derive").start()
time.sleep(0.3)
ready()
while not done.wait(0.5):
    pass
