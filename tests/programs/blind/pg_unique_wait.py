"""DIAGNOSIS blocked.db_lock: INSERT of a key that another session inserted and has not committed
(waits for its transaction id); async psycopg under asyncio.
"""

import asyncio
import subprocess
import time

import psycopg
from _role import play, role
from _stage import postgresql_dsn, ready

q = "insert into users values ('bob')"
if role():
    c = psycopg.connect(postgresql_dsn(), application_name="signup-2")
    c.execute(q)
    print("held", flush=True)
    time.sleep(1e6)
with psycopg.connect(postgresql_dsn()) as c:
    c.execute("create table if not exists users(name text primary key)")
p = play("holder", stdout=subprocess.PIPE, text=True)
p.stdout.readline()


async def main():
    c = await psycopg.AsyncConnection.connect(postgresql_dsn(), application_name="signup-1")
    ready()
    await c.execute(q)


asyncio.run(main())
