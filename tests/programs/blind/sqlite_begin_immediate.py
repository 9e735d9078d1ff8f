"""DIAGNOSIS blocked.file_lock: BEGIN IMMEDIATE on a WAL database whose write lock another process
keeps; busy timeout of a day, in a worker thread.
"""

import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

from _role import play, role
from _stage import ready

if role() == "importer":
    db = sqlite3.connect(sys.argv[2], isolation_level=None)
    db.execute("begin immediate")
    db.execute("insert into job values (1)")
    print("held", flush=True)
    time.sleep(1e6)

path = os.path.join(tempfile.mkdtemp(prefix="files_"), "jobs.db")
db = sqlite3.connect(path)
db.execute("pragma journal_mode=wal")
db.execute("create table job(id int)")
db.commit()
p = play("importer", path, stdout=subprocess.PIPE, text=True)
p.stdout.readline()


def enqueue(n):
    mine = sqlite3.connect(path, timeout=86400, isolation_level=None)
    mine.execute("begin immediate")
    mine.execute("insert into job values (?)", (n,))
    mine.execute("commit")


t = threading.Thread(target=enqueue, args=(2,), name="enqueue")
t.start()
time.sleep(0.3)
ready()
t.join()
