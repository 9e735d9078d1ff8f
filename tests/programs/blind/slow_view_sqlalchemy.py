"""DIAGNOSIS blocked.db_query: SQLAlchemy reads a view that needs hours in the server (no lock
involved).
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
view = f"churn_{os.getpid()}"
with engine.begin() as c:
    c.execute(
        sa.text(
            f"create view {view} as select g as id, length(pg_sleep(0.05)::text) as w"
            " from generate_series(1, 10000000) g"
        )
    )


def churn_report():
    with engine.connect() as c:
        ready()
        return c.execute(
            sa.text(f"select count(w) from (select * from {view} offset 0) v")
        ).scalar()


churn_report()
