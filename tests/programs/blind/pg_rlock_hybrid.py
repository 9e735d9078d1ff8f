"""DIAGNOSIS deadlock.hybrid: one pool thread holds the in-memory cache's RLock and waits for a row;
the other holds the row and waits for the RLock.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
from _stage import postgresql_dsn, ready


def con():
    return psycopg.connect(postgresql_dsn(), application_name="cachesvc")


cache, lock = {}, threading.RLock()
with con() as c:
    c.execute("create table if not exists kv(k int primary key, v int)")
    c.execute("insert into kv values (1,1) on conflict do nothing")


def refresh(c):
    with lock:
        time.sleep(0.5)
        cache[1] = c.execute("select v from kv where k=1 for update").fetchone()


def put(c):
    c.execute("update kv set v=v+1 where k=1")
    time.sleep(0.8)
    with lock:
        cache[1] = None
    c.commit()


with ThreadPoolExecutor(2) as pool:
    fs = [pool.submit(f, con()) for f in (put, refresh)]
    time.sleep(1.4)
    ready()
    [f.result() for f in fs]
