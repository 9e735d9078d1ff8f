"""DIAGNOSIS blocked.db_lock|blocked.distributed_lock: pg_advisory_lock() for leadership in a
thread; another process (the old leader) keeps it; main has a status loop.
"""

import os
import subprocess
import sys
import threading
import time

import psycopg
from _role import play, role
from _stage import postgresql_dsn, ready

if role() == "old-leader":
    c = psycopg.connect(postgresql_dsn(), autocommit=True, application_name="old-leader")
    c.execute("select pg_advisory_lock(%s)", (int(sys.argv[2]),))
    print("held", flush=True)
    time.sleep(1e6)

KEY = 5_000_000 + os.getpid()
p = play("old-leader", str(KEY), stdout=subprocess.PIPE, text=True)
p.stdout.readline()
is_leader = threading.Event()


def campaign():
    conn = psycopg.connect(postgresql_dsn(), autocommit=True)
    conn.execute("select pg_advisory_lock(%s)", (KEY,))
    is_leader.set()


threading.Thread(target=campaign, name="campaign").start()
time.sleep(0.5)
ready()
while not is_leader.wait(1.0):
    pass
