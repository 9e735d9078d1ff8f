"""DIAGNOSIS blocked.external|none.idle: LISTEN: conn.notifies() waits for a NOTIFY nobody sends
(the backend is idle).
"""

import os

import psycopg
from _stage import postgresql_dsn, ready

conn = psycopg.connect(postgresql_dsn(), autocommit=True)
conn.execute(f"listen news_{os.getpid()}")
ready()
for note in conn.notifies():
    print(note.payload)
