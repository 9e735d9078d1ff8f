"""DIAGNOSIS leak.db_connections|deadlock.in_process: four threads hold one SQLAlchemy connection
each and all want a second one from a pool of four.
"""

import threading
import time

import psycopg
import sqlalchemy as sa
from _stage import postgresql_dsn, ready

e = sa.create_engine(
    "postgresql+psycopg://",
    creator=lambda: psycopg.connect(postgresql_dsn(), application_name="api"),
    pool_size=4,
    max_overflow=0,
    pool_timeout=1e6,
)


def numbering():
    with e.begin() as c:
        return c.execute(sa.text("select 1")).scalar()


def request():
    with e.begin() as c:
        c.execute(sa.text("select 2"))
        time.sleep(0.4)
        numbering()


ts = [threading.Thread(target=request, name=f"request-{i}") for i in range(4)]
[t.start() for t in ts]
time.sleep(1.2)
ready()
[t.join() for t in ts]
