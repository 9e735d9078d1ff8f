"""DIAGNOSIS blocked.db_query: a stored procedure loops in the server (plpgsql, seconds of work and
naps); the client thread waits for its end, main joins.
"""

import threading
import time

import psycopg
from _stage import postgresql_dsn, ready

SQL = """
do $$ begin
  for i in 1..100000 loop
    perform count(*) from generate_series(1, 2000);
    perform pg_sleep(0.3);
  end loop;
end $$
"""


def refresh():
    with psycopg.connect(
        postgresql_dsn(), options="-c client_connection_check_interval=2000"
    ) as conn:
        conn.execute(SQL)


t = threading.Thread(target=refresh, name="refresh-report")
t.start()
time.sleep(0.7)
ready()
t.join()
