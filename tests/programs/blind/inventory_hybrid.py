"""DIAGNOSIS deadlock.hybrid: the reserver holds the in-memory RLock and waits for an advisory lock;
the restocker's session holds that advisory lock and wants the RLock.
"""

import os
import threading
import time

import psycopg
from _stage import postgresql_dsn, ready

KEY = 770000 + os.getpid()
shelf = threading.RLock()
both = threading.Barrier(3)


def connect():
    return psycopg.connect(postgresql_dsn(), options="-c client_connection_check_interval=2000")


def reserve(conn):
    with shelf:
        both.wait()
        conn.execute("select pg_advisory_xact_lock(%s)", (KEY,))
        conn.commit()


def restock(conn):
    conn.execute("select pg_advisory_xact_lock(%s)", (KEY,))
    both.wait()
    time.sleep(0.2)
    with shelf:
        conn.commit()


ts = [threading.Thread(target=f, args=(connect(),), name=f.__name__) for f in (reserve, restock)]
[t.start() for t in ts]
both.wait()
time.sleep(0.6)
ready()
[t.join() for t in ts]
