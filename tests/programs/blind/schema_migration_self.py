"""DIAGNOSIS deadlock.db_self: a migration reads from one (pooled) connection, still in its
transaction, and runs ALTER TABLE on another connection of the same process.
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
table = f"users_{os.getpid()}"
with engine.begin() as c:
    c.execute(sa.text(f"create table {table}(id int, name text)"))
    c.execute(sa.text(f"insert into {table} select g, 'u' || g from generate_series(1, 100) g"))


def add_column(name):
    with engine.begin() as ddl:
        ddl.execute(sa.text(f"alter table {table} add column {name} text"))


def migrate():
    with engine.connect() as reader:
        users = reader.execute(sa.text(f"select id, name from {table}")).fetchall()
        ready()
        add_column("email")
        return users


migrate()
