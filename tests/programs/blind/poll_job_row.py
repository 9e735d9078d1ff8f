"""DIAGNOSIS blocked.polling: asks PostgreSQL every 100 ms whether the job's row says 'done'; it
never will.
"""

import os
import time

import psycopg
from _stage import postgresql_dsn, ready

conn = psycopg.connect(postgresql_dsn(), autocommit=True)
conn.execute("create table if not exists jobs(id bigint primary key, state text)")
conn.execute("insert into jobs values (%s, 'running') on conflict do nothing", (os.getpid(),))


def state(job):
    return conn.execute("select state from jobs where id=%s", (job,)).fetchone()[0]


def wait_done(job):
    while state(job) != "done":
        time.sleep(0.1)


ready()
wait_done(os.getpid())
