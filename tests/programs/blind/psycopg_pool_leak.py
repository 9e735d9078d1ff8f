"""DIAGNOSIS leak.db_connections: psycopg_pool: four connections were taken with getconn() and never
put back; the fifth getconn() waits (timeout of a day).
"""

import psycopg_pool
from _stage import postgresql_dsn, ready

pool = psycopg_pool.ConnectionPool(
    postgresql_dsn(), min_size=1, max_size=4, timeout=86400, open=True
)
pool.wait()
kept = []


def load_customer(i):
    conn = pool.getconn()
    row = conn.execute("select %s::int", (i,)).fetchone()
    kept.append(conn)  # forgot putconn()
    return row


for i in range(10):
    if i == 4:
        ready()
    load_customer(i)
