"""DIAGNOSIS deadlock.db_self: a function opens its own transaction while its caller, in the same
thread, still has the row locked in another connection of this process.
"""

import psycopg
import sqlalchemy as sa
from _stage import postgresql_dsn, ready

e = sa.create_engine(
    "postgresql+psycopg://",
    creator=lambda: psycopg.connect(postgresql_dsn(), application_name="shop"),
)
with e.begin() as c:
    c.execute(sa.text("create table if not exists cart(id int primary key, n int)"))
    c.execute(sa.text("insert into cart values (1,0) on conflict do nothing"))


def audit():
    with e.begin() as c:
        c.execute(sa.text("update cart set n=-1 where id=1"))


def checkout():
    with e.begin() as c:
        c.execute(sa.text("update cart set n=n+1 where id=1"))
        ready()
        audit()


checkout()
