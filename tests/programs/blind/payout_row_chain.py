"""DIAGNOSIS blocked.db_lock: row locks in a chain: we wait for session B, which waits for session C
(idle in transaction).
"""

import os
import subprocess
import sys
import time

import psycopg
from _role import play, role
from _stage import postgresql_dsn, ready

UPD = "update wallets set cents=cents+1 where id=%s"
if role():
    me = int(sys.argv[2])
    with psycopg.connect(postgresql_dsn(), application_name=role()) as c:
        if role() == "batch-c":
            c.execute(UPD, (-me,))
            print("held", flush=True)
            time.sleep(1e6)
        c.execute(UPD, (me,))
        print("held", flush=True)
        c.execute(UPD, (-me,))
    time.sleep(1e6)

ME = os.getpid()
conn = psycopg.connect(postgresql_dsn())
conn.execute("create table if not exists wallets(id bigint primary key, cents bigint)")
conn.execute("insert into wallets values (%s, 0), (%s, 0) on conflict do nothing", (ME, -ME))
conn.commit()
for name in ("batch-c", "batch-b"):
    p = play(name, str(ME), stdout=subprocess.PIPE, text=True)
    p.stdout.readline()
time.sleep(0.4)
with conn.transaction():
    ready()
    conn.execute(UPD, (ME,))
