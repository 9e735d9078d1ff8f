"""DIAGNOSIS none.progressing (control): a thread pool that hashes small documents, thousands one
after the other, with little waits.
"""

import hashlib
import time
from concurrent.futures import ThreadPoolExecutor

from _stage import ready


def digest(n):
    time.sleep(0.004)
    return hashlib.sha256(str(n).encode() * 2000).hexdigest()


n = 0
ready()
with ThreadPoolExecutor(3, thread_name_prefix="digest") as pool:
    while True:
        list(pool.map(digest, range(n, n + 60)))
        n += 60
