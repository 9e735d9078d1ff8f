"""DIAGNOSIS blocked.db_lock: pg_advisory_lock() held by another application's session."""

import subprocess
import time

import psycopg
from _role import play, role
from _stage import postgresql_dsn, ready

c = psycopg.connect(
    postgresql_dsn(), application_name="nightly-report" if role() else "importer", autocommit=True
)
if role():
    c.execute("select pg_advisory_lock(4711)")
    print("held", flush=True)
    time.sleep(1e6)
p = play("holder", stdout=subprocess.PIPE, text=True)
p.stdout.readline()
ready()
c.execute("select pg_advisory_lock(4711)")
