"""DIAGNOSIS deadlock.db_self: a connection waits for a row that its sister has changed."""

import psycopg
from _stage import application, postgresql_dsn, ready

COUNT = "update visit set total = total + 1 where page = '/'"


def connect() -> psycopg.Connection:
    return psycopg.connect(postgresql_dsn(), application_name=application())


def main() -> None:
    outer = connect()
    outer.execute("create table if not exists visit (page text primary key, total int)")
    outer.execute("insert into visit values ('/', 0) on conflict do nothing")
    outer.commit()
    outer.execute(COUNT)
    inner = connect()
    ready()
    inner.execute(COUNT)


main()
