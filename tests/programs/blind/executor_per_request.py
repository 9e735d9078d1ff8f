"""DIAGNOSIS leak.threads: a new ThreadPoolExecutor for each request, never shut down: 700 idle pool
threads; requests still come.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from _stage import ready

threading.stack_size(256 * 1024)
kept = []


def handle(n):
    ex = ThreadPoolExecutor(1, thread_name_prefix=f"req{n}")
    kept.append(ex)
    return ex.submit(pow, n, 2).result()


for n in range(700):
    handle(n)
ready()
while True:
    time.sleep(1)
    handle(1)
