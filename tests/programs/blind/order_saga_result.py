"""DIAGNOSIS deadlock.db_self|deadlock.hybrid: main has updated a row in an open transaction and
waits for a pool future whose thread updates that row on another connection.
"""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
from _stage import postgresql_dsn, ready

OPT = "-c client_connection_check_interval=2000"
ME = os.getpid()
with psycopg.connect(postgresql_dsn()) as c:
    c.execute("create table if not exists orders(id bigint primary key, state text)")
    c.execute("insert into orders values (%s, 'new') on conflict do nothing", (ME,))


def mark_paid(order):
    with psycopg.connect(postgresql_dsn(), options=OPT) as conn:
        conn.execute("update orders set state='paid' where id=%s", (order,))


def saga(order):
    with (
        ThreadPoolExecutor(2, thread_name_prefix="step") as pool,
        psycopg.connect(postgresql_dsn(), options=OPT) as conn,
    ):
        conn.execute("update orders set state='busy' where id=%s", (order,))
        step = pool.submit(mark_paid, order)
        threading.Timer(0.5, ready).start()
        step.result()


saga(ME)
