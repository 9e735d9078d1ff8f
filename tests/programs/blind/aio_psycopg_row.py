"""DIAGNOSIS blocked.db_lock|asyncio.pending_forever: AsyncConnection waits for a row lock of
another process; the event loop is alive, a health task ticks.
"""

import asyncio
import os
import subprocess
import sys
import time

import psycopg
from _role import play, role
from _stage import postgresql_dsn, ready

if role() == "console":
    with psycopg.connect(postgresql_dsn(), application_name="console") as c:
        c.execute("select * from stock where id=%s for update", (int(sys.argv[2]),))
        print("held", flush=True)
        time.sleep(1e6)

ME = os.getpid()
with psycopg.connect(postgresql_dsn()) as c:
    c.execute("create table if not exists stock(id bigint primary key, n int)")
    c.execute("insert into stock values (%s, 5) on conflict do nothing", (ME,))
p = play("console", str(ME), stdout=subprocess.PIPE, text=True)
p.stdout.readline()


async def health():
    while True:
        await asyncio.sleep(1.0)


async def reserve(item):
    async with await psycopg.AsyncConnection.connect(postgresql_dsn()) as conn:
        asyncio.get_running_loop().call_later(0.3, ready)
        await conn.execute("update stock set n=n-1 where id=%s", (item,))


async def main():
    t = asyncio.create_task(health())
    await reserve(ME)
    t.cancel()


asyncio.run(main())
