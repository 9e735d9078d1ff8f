"""DIAGNOSIS busy.native: a SQLite query with a forgotten join condition (1e18 rows) runs inside
libsqlite3 without the GIL, in a pool thread.
"""

import sqlite3
from concurrent.futures import ThreadPoolExecutor

from _stage import ready


def report():
    c = sqlite3.connect(":memory:")
    c.execute("create table t(x)")
    c.executemany("insert into t values (?)", ((i,) for i in range(1000)))
    return c.execute(
        "select count(*) from t a, t b, t c, t d, t e, t f where a.x+b.x+c.x=d.x+e.x-f.x"
    ).fetchone()


with ThreadPoolExecutor(1) as pool:
    f = pool.submit(report)
    ready()
    f.result()
