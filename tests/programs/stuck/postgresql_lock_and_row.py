"""DIAGNOSIS deadlock.hybrid: one thread has a lock and wants a row, another the reverse."""

import threading
import time

import psycopg
from _stage import application, postgresql_dsn, ready

books = threading.Lock()
TAKE = "update shelf set amount = amount - 1 where book = 'B1'"


def connect() -> psycopg.Connection:
    return psycopg.connect(postgresql_dsn(), application_name=application())


def sell() -> None:
    with books:
        time.sleep(0.3)
        with connect() as line:
            line.execute(TAKE)


def lend() -> None:
    with connect() as line:
        line.execute(TAKE)
        time.sleep(0.4)
        with books:
            line.commit()


with connect() as setup:
    setup.execute("create table if not exists shelf (book text primary key, amount int)")
    setup.execute("insert into shelf values ('B1', 9) on conflict do nothing")
setup.close()
threads = [threading.Thread(target=act, name=act.__name__) for act in (sell, lend)]
for thread in threads:
    thread.start()
time.sleep(0.8)
ready()
for thread in threads:
    thread.join()
