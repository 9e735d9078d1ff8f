"""DIAGNOSIS deadlock.in_process: the main thread holds the table lock and waits for the pool to
shut down; the pool's thread runs a done-callback that wants the table lock.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from _stage import ready

table, table_lock = {}, threading.Lock()


def fetch(i):
    time.sleep(0.2)
    return i * i


def store(f):
    with table_lock:
        table[f.result()] = True


def close(pool):
    with table_lock:
        table.clear()
        ready()
        pool.shutdown(wait=True)


pool = ThreadPoolExecutor(2, thread_name_prefix="fetch")
for n in range(4):
    pool.submit(fetch, n).add_done_callback(store)
close(pool)
