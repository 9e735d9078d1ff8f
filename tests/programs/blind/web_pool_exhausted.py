"""DIAGNOSIS leak.db_connections: three request threads wait for SQLAlchemy's QueuePool; the
connections went to sessions that were never closed.
"""

import threading
import time

import psycopg
import sqlalchemy as sa
from _stage import postgresql_dsn, ready
from sqlalchemy.orm import Session

engine = sa.create_engine(
    "postgresql+psycopg://",
    creator=lambda: psycopg.connect(postgresql_dsn()),
    pool_size=2,
    max_overflow=1,
    pool_timeout=1e6,
)
sessions = []


def load_profile(user):
    s = Session(engine)
    sessions.append(s)  # never closed
    return s.execute(sa.text("select :u"), {"u": user}).scalar()


def request(n):
    load_profile(n)


for n in range(3):
    request(n)
ts = [threading.Thread(target=request, args=(n,), name=f"req-{n}") for n in range(3, 6)]
[t.start() for t in ts]
time.sleep(0.3)
ready()
while any(t.is_alive() for t in ts):
    time.sleep(1)
