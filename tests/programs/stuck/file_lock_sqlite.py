"""DIAGNOSIS blocked.file_lock: another process has begun to write to the same SQLite database."""

import signal
import sqlite3
from collections.abc import Callable

from _stage import LONG_S, beside, ready, temporary

database = temporary("orders.sqlite")


def connect() -> sqlite3.Connection:
    return sqlite3.connect(database, timeout=LONG_S, isolation_level=None)


def write_for_ever(tell: Callable[[str], None]) -> None:
    line = connect()
    line.execute("begin exclusive")
    tell("writing")
    signal.pause()


with connect() as first:
    first.execute("create table orders (id integer primary key, note text)")
first.close()
beside(write_for_ever)
own = connect()
ready()
own.execute("insert into orders (note) values ('late')")
