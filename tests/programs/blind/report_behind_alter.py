"""DIAGNOSIS blocked.db_lock: a chain: our SELECT queues behind another session's ALTER TABLE, which
waits for a third session that is idle in transaction.
"""

import os
import subprocess
import sys
import time

import psycopg
from _role import play, role
from _stage import postgresql_dsn, ready

if role():
    c = psycopg.connect(postgresql_dsn(), application_name=role())
    if role() == "analyst":
        c.execute(f"select count(*) from {sys.argv[2]}")
        print("held", flush=True)
        time.sleep(1e6)
    print("altering", flush=True)
    c.execute(f"alter table {sys.argv[2]} add column note text")
    time.sleep(1e6)

table = f"events_{os.getpid()}"
with psycopg.connect(postgresql_dsn()) as c:
    c.execute(f"create table {table}(id int, v int)")
for name in ("analyst", "migration"):
    p = play(name, table, stdout=subprocess.PIPE, text=True)
    p.stdout.readline()
time.sleep(0.5)


def daily_total(conn):
    ready()
    return conn.execute(f"select sum(v) from {table}").fetchone()


daily_total(psycopg.connect(postgresql_dsn()))
