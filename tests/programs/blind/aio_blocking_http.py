"""DIAGNOSIS asyncio.loop_blocked|blocked.external: a coroutine calls urllib.request.urlopen()
(blocking, no timeout) in the event-loop thread; the server never answers.
"""

# ruff: noqa: RUF006

import asyncio
import socket
import subprocess
import urllib.request

from _role import play, role
from _stage import ready

if role() == "api":
    s = socket.create_server(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    keep = []
    while True:
        keep.append(s.accept())

p = play("api", stdout=subprocess.PIPE, text=True)
port = int(p.stdout.readline())


async def keepalive():
    while True:
        await asyncio.sleep(0.05)


async def price(sku):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/price/{sku}") as r:
        return r.read()


async def main():
    asyncio.create_task(keepalive())
    await asyncio.sleep(0.2)
    ready()
    await price("A-1")


asyncio.run(main())
