"""DIAGNOSIS leak.db_connections: psycopg_pool: an error path forgets putconn(); all eight are out
(idle in transaction) and the next request waits for one.
"""

from _stage import postgresql_dsn, ready
from psycopg_pool import ConnectionPool

pool = ConnectionPool(
    postgresql_dsn(), min_size=2, max_size=8, timeout=1e6, kwargs={"application_name": "web"}
)


def handle(n):
    c = pool.getconn()
    try:
        c.execute("select %s / 1", (n,))
        raise ValueError("bad request") if n < 8 else None
    except ValueError as e:
        errors.append((e, c))
        return
    pool.putconn(c)


errors = []
for n in range(9):
    if n == 8:
        ready()
    handle(n)
