"""DIAGNOSIS deadlock.hybrid: the importer holds a LOCK TABLE and wants the catalogue's Lock (bare
acquire); the web thread holds that Lock and waits for the table.
"""

import os
import threading
import time

import psycopg
from _stage import postgresql_dsn, ready

OPT = "-c client_connection_check_interval=2000"
table = f"prices_{os.getpid()}"
with psycopg.connect(postgresql_dsn()) as c:
    c.execute(f"create table {table}(sku text, cents int)")


class Catalogue:
    def __init__(self):
        self.mutex = threading.Lock()

    def import_prices(self):
        with psycopg.connect(postgresql_dsn(), options=OPT) as conn:
            conn.execute(f"lock table {table} in access exclusive mode")
            time.sleep(0.5)
            self.mutex.acquire()
            try:
                conn.execute(f"insert into {table} values ('a', 1)")
            finally:
                self.mutex.release()

    def show(self, sku):
        conn = psycopg.connect(postgresql_dsn(), options=OPT)
        with self.mutex:
            return conn.execute(f"select cents from {table} where sku=%s", (sku,)).fetchall()


cat = Catalogue()
a = threading.Thread(target=cat.import_prices, name="importer")
a.start()
time.sleep(0.3)
b = threading.Thread(target=cat.show, args=("a",), name="web-1")
b.start()
time.sleep(0.7)
ready()
while a.is_alive() or b.is_alive():
    time.sleep(0.5)
