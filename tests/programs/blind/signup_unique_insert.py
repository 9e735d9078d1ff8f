"""DIAGNOSIS blocked.db_lock: INSERT waits on a unique index: another process inserted the same
e-mail and has not committed.
"""

import os
import subprocess
import sys
import time

import psycopg
from _role import play, role
from _stage import postgresql_dsn, ready

SQL = "insert into signups values (%s, now())"
if role() == "twin":
    with psycopg.connect(postgresql_dsn()) as c:
        c.execute(SQL, (sys.argv[2],))
        print("held", flush=True)
        time.sleep(1e6)

with psycopg.connect(postgresql_dsn()) as c:
    c.execute("create table if not exists signups(email text primary key, at timestamptz)")
mail = f"user{os.getpid()}@example.org"
p = play("twin", mail, stdout=subprocess.PIPE, text=True)
p.stdout.readline()


def signup(email):
    with psycopg.connect(postgresql_dsn()) as c, c.cursor() as cur:
        ready()
        cur.execute(SQL, (email,))


signup(mail)
