"""DIAGNOSIS none.progressing: healthy; one short query after another, and every one is answered."""

import itertools

import psycopg
from _stage import application, postgresql_dsn, ready

with psycopg.connect(postgresql_dsn(), application_name=application()) as line:
    ready()
    for number in itertools.count():
        line.execute("select sum(g) from generate_series(1, %s) g", (number % 5000,)).fetchone()
