"""DIAGNOSIS deadlock.in_process|deadlock.hybrid|leak.db_connections: one thread holds the lock and
waits for the pool's only connection; the other has the connection and waits for the lock.
"""

import threading
import time

from _stage import postgresql_dsn, ready
from psycopg_pool import ConnectionPool

pool = ConnectionPool(
    postgresql_dsn(), min_size=1, max_size=1, timeout=1e6, kwargs={"application_name": "w"}
)
pool.wait()
lock = threading.Lock()


def a():
    with lock:
        time.sleep(0.3)
        with pool.connection() as c:
            c.execute("select 1")


def b():
    with pool.connection() as c:
        time.sleep(0.15)
        with lock:
            c.execute("select 2")


ts = [threading.Thread(target=f, name=f.__name__) for f in (a, b)]
[t.start() for t in ts]
time.sleep(0.8)
ready()
[t.join() for t in ts]
