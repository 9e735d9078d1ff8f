"""DIAGNOSIS blocked.db_lock: ALTER TABLE waits for another process's session, idle in transaction
after a SELECT; a thread of ours ticks.
"""

import subprocess
import threading
import time

import psycopg
from _role import play, role
from _stage import postgresql_dsn, ready

c = psycopg.connect(postgresql_dsn(), application_name="psql-of-alice" if role() else "migrate")
if role():
    c.execute("select count(*) from purchases")
    print("held", flush=True)
    time.sleep(1e6)
c.execute("create table if not exists purchases(id int)")
c.commit()
p = play("holder", stdout=subprocess.PIPE, text=True)
p.stdout.readline()


def tick():
    while True:
        time.sleep(0.3)


threading.Thread(target=tick, daemon=True).start()
ready()
c.execute("alter table purchases add column if not exists note text")
