"""DIAGNOSIS asyncio.pending_forever|blocked.external: asyncio streams: await reader.readline() on a
server (another process) that accepted and says nothing.
"""

import asyncio
import socket
import subprocess

from _role import play, role
from _stage import ready

if role() == "feed":
    s = socket.create_server(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    keep = []
    while True:
        keep.append(s.accept())

p = play("feed", stdout=subprocess.PIPE, text=True)
port = int(p.stdout.readline())


async def next_tick():
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"SUB EURUSD\n")
    await writer.drain()
    ready()
    return await reader.readline()


asyncio.run(next_tick())
