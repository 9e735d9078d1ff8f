"""DIAGNOSIS blocked.file_lock: SQLite's busy handler sleeps and retries in a pool thread: another
process is in an open write transaction.
"""

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from _role import play, role
from _stage import ready

path = sys.argv[2] if role() else os.path.join(tempfile.gettempdir(), f"unix_{os.getpid()}.db")
if role() == "holder":
    c = sqlite3.connect(path, isolation_level=None)
    c.execute("create table jobs(x)")
    c.execute("begin immediate")
    c.execute("insert into jobs values(1)")
    print("held", flush=True)
    time.sleep(1e6)
p = play("holder", path, stdout=subprocess.PIPE, text=True)
p.stdout.readline()


def finish(n):
    with sqlite3.connect(path, timeout=1e6) as c:
        c.execute("delete from jobs where x=?", (n,))


with ThreadPoolExecutor(1) as pool:
    f = pool.submit(finish, 1)
    time.sleep(0.3)
    ready()
    f.result()
