"""DIAGNOSIS leak.db_connections: the pool of psycopg is empty, nothing was put back."""

import psycopg_pool
from _stage import LONG_S, application, postgresql_dsn, ready

pool = psycopg_pool.ConnectionPool(
    postgresql_dsn(),
    kwargs={"application_name": application()},
    min_size=2,
    max_size=2,
    timeout=LONG_S,
    open=True,
)
pool.wait()
taken = []


def customer(number: int) -> None:
    line = pool.getconn()
    line.execute("select %s::int", (number,))
    taken.append(line)


for number in range(2):
    customer(number)
ready()
customer(2)
