"""DIAGNOSIS asyncio.pending_forever|blocked.external: run_in_executor of a blocking recv() on a
silent peer; the loop itself is fine and ticks.
"""

# ruff: noqa: F841, RUF006

import asyncio
import socket
import subprocess

from _role import play, role
from _stage import ready

if role() == "plc":
    s = socket.create_server(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    keep = []
    while True:
        keep.append(s.accept())

p = play("plc", stdout=subprocess.PIPE, text=True)
port = int(p.stdout.readline())


def read_register(n):
    with socket.create_connection(("127.0.0.1", port)) as c:
        c.sendall(bytes([n]))
        return c.recv(2)


async def tick():
    while True:
        await asyncio.sleep(0.8)


async def main():
    t = asyncio.create_task(tick())
    loop = asyncio.get_running_loop()
    loop.call_later(0.3, ready)
    print(await loop.run_in_executor(None, read_register, 5))


asyncio.run(main())
