"""DIAGNOSIS blocked.file_lock|deadlock.in_process|deadlock.db_self: SQLite: one connection of this
process has an open write transaction, the cache writer uses a second one and spins in the busy
handler (timeout of a day).
"""

import os
import sqlite3
import tempfile

from _stage import ready

path = os.path.join(tempfile.mkdtemp(prefix="files_"), "app.db")


class Repo:
    def __init__(self):
        self.db = sqlite3.connect(path, timeout=86400)

    def init(self):
        self.db.executescript("create table if not exists kv(k primary key, v);")

    def put(self, k, v):
        self.db.execute("insert or replace into kv values (?, ?)", (k, v))


orders, cache = Repo(), Repo()
orders.init()
orders.put("order", 1)  # transaction stays open
ready()
cache.put("hint", 2)
