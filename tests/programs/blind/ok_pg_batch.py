"""DIAGNOSIS none.progressing (control): a database batch: many short transactions, each another
row, with some Python work between.
"""

import hashlib

import psycopg
from _stage import postgresql_dsn, ready

c = psycopg.connect(postgresql_dsn(), application_name="batch")
c.execute("create table if not exists pages(id bigint primary key, h text)")
c.execute("truncate pages")
c.commit()
ready()
n = 0


def one(n):
    h = hashlib.sha256(str(n).encode() * 300).hexdigest()
    c.execute("insert into pages values (%s,%s)", (n, h))
    c.execute("select count(*) from pages where id > %s", (n - 10,)).fetchone()
    if n > 500:
        c.execute("delete from pages where id = %s", (n - 500,))
    c.commit()


while True:
    one(n)
    n += 1
