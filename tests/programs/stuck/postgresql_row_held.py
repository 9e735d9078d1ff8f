"""DIAGNOSIS blocked.db_lock: a row is to be changed that a session of others has changed."""

import signal
from collections.abc import Callable

import psycopg
from _stage import application, beside, postgresql_dsn, ready

RENAME = "update customer set name = 'Smith' where id = %s"


def edit(tell: Callable[[str], None]) -> None:
    line = psycopg.connect(postgresql_dsn(), application_name="back-office")
    line.execute(RENAME, (3,))
    tell("has changed the row")
    signal.pause()


def rename(customer: int) -> None:
    with psycopg.connect(postgresql_dsn(), application_name=application()) as line:
        ready()
        line.execute(RENAME, (customer,))


with psycopg.connect(postgresql_dsn()) as setup:
    setup.execute("create table if not exists customer (id int primary key, name text)")
    setup.execute("insert into customer values (3, 'Miller') on conflict do nothing")
setup.close()
beside(edit)
rename(3)
