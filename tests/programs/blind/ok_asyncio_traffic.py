"""DIAGNOSIS none.progressing|none.idle (control): an asyncio TCP service with three clients
(another process) that send 60 requests a second in all.
"""

# ruff: noqa: F841

import asyncio
import sys

from _role import play, role
from _stage import ready


async def handle(r, w):
    while line := await r.readline():
        await asyncio.sleep(0.003)
        w.write(line.upper())
        await w.drain()


async def client(port):
    r, w = await asyncio.open_connection("127.0.0.1", port)
    while True:
        w.write(b"hello\n")
        await r.readline()
        await asyncio.sleep(0.05)


async def clients(port):
    await asyncio.gather(*(client(port) for _ in range(3)))


async def main():
    s = await asyncio.start_server(handle, "127.0.0.1", 0)
    p = play("client", str(s.sockets[0].getsockname()[1]))
    await asyncio.sleep(1)
    ready()
    await s.serve_forever()


asyncio.run(clients(int(sys.argv[2])) if role() else main())
