"""DIAGNOSIS blocked.db_lock: SQLAlchemy SELECT … FOR UPDATE in three pool threads; a foreign
session has the row; main waits for the futures.
"""

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import sqlalchemy as sa
from _role import play, role
from _stage import postgresql_dsn, ready

if role():
    c = psycopg.connect(postgresql_dsn(), application_name="billing")
    c.execute("select * from stock where id=1 for update")
    print("held", flush=True)
    time.sleep(1e6)
e = sa.create_engine(
    "postgresql+psycopg://",
    creator=lambda: psycopg.connect(postgresql_dsn(), application_name="shop"),
)
with e.begin() as c:
    c.execute(sa.text("create table if not exists stock(id int primary key, n int)"))
    c.execute(sa.text("insert into stock values (1,5) on conflict do nothing"))
p = play("holder", stdout=subprocess.PIPE, text=True)
p.stdout.readline()


def reserve(i):
    with e.begin() as c:
        c.execute(sa.text("select n from stock where id=1 for update")).one()


with ThreadPoolExecutor(3) as pool:
    fs = [pool.submit(reserve, i) for i in range(3)]
    time.sleep(0.5)
    ready()
    [f.result() for f in fs]
