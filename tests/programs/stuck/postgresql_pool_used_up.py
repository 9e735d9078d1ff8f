"""DIAGNOSIS leak.db_connections: connections were never given back, the next one waits."""

import psycopg
import sqlalchemy
from _stage import LONG_S, application, postgresql_dsn, ready

engine = sqlalchemy.create_engine(
    "postgresql+psycopg://",
    creator=lambda: psycopg.connect(postgresql_dsn(), application_name=application()),
    pool_size=3,
    max_overflow=1,
    pool_timeout=LONG_S,
)
forgotten = []


def customer(number: int) -> object:
    line = engine.connect()
    forgotten.append(line)
    return line.execute(sqlalchemy.text("select :number"), {"number": number}).scalar()


for number in range(4):
    customer(number)
ready()
customer(4)
