"""DIAGNOSIS blocked.db_query: the database works on a query for days and waits for no lock."""

import psycopg
from _stage import application, postgresql_dsn, ready

QUERY = "select count(*) from generate_series(1, 90000) g, lateral pg_sleep(g)"

with psycopg.connect(postgresql_dsn(), application_name=application()) as line:
    ready()
    line.execute(QUERY)
