"""DIAGNOSIS deadlock.db_self: one ORM-like session has inserted a key and not committed; the audit
writer inserts the same unique key on a second connection of the same process and waits for ever.
"""

import os

import psycopg
import sqlalchemy as sa
from _stage import postgresql_dsn, ready

engine = sa.create_engine(
    "postgresql+psycopg://",
    creator=lambda: psycopg.connect(
        postgresql_dsn(), options="-c client_connection_check_interval=2000"
    ),
)
meta = sa.MetaData()
docs = sa.Table(
    "docs",
    meta,
    sa.Column("ref", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("state", sa.Text),
)
meta.create_all(engine)
REF = os.getpid()


def write_audit(ref):
    with engine.begin() as other:
        other.execute(docs.insert().values(ref=ref, state="audit"))


def publish(ref):
    with engine.begin() as conn:
        conn.execute(docs.delete().where(docs.c.ref == ref))
        conn.execute(docs.insert().values(ref=ref, state="draft"))
        ready()
        write_audit(ref)


publish(REF)
