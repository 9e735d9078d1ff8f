"""DIAGNOSIS blocked.db_lock: SELECT ... FOR UPDATE through SQLAlchemy waits for a row that another
process locked; it is idle in transaction.
"""

import os
import subprocess
import sys
import time

import psycopg
import sqlalchemy as sa
from _role import play, role
from _stage import postgresql_dsn, ready

if role() == "cashier":
    with psycopg.connect(postgresql_dsn()) as c:
        c.execute("update accounts set cents=cents+1 where id=%s", (int(sys.argv[2]),))
        print("held", flush=True)
        time.sleep(1e6)

engine = sa.create_engine(
    "postgresql+psycopg://", creator=lambda: psycopg.connect(postgresql_dsn())
)
with engine.begin() as c:
    c.execute(sa.text("create table if not exists accounts(id bigint primary key, cents bigint)"))
    c.execute(
        sa.text("insert into accounts values (:i, 0) on conflict do nothing"), {"i": os.getpid()}
    )
p = play("cashier", str(os.getpid()), stdout=subprocess.PIPE, text=True)
p.stdout.readline()


def settle(account):
    with engine.begin() as c:
        row = c.execute(
            sa.text("select * from accounts where id=:i for update"), {"i": account}
        ).one()
        return row.cents


ready()
settle(os.getpid())
