"""DIAGNOSIS blocked.db_query: a recursive query that never ends (the backend is active, on no
lock), in a thread; main in queue.get().
"""

import queue
import threading
import time

import psycopg
from _stage import postgresql_dsn, ready

c = psycopg.connect(
    postgresql_dsn(), application_name="bi", options="-c client_connection_check_interval=500"
)
out = queue.Queue()


def report():
    out.put(
        c.execute(
            "with recursive r(n, s) as ("
            "select 1, pg_sleep(0) union all select n+1, pg_sleep(0.002) from r"
            ") select count(*) from r"
        ).fetchone()
    )


threading.Thread(target=report, name="report").start()
time.sleep(0.3)
ready()
out.get()
