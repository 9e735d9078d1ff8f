"""DIAGNOSIS blocked.external|asyncio.pending_forever: await asyncio.to_thread(); the thread is in
recv() on a silent peer; the loop idles.
"""

import asyncio
import socket
import subprocess
import time

from _role import play, role
from _stage import ready

if role() == "server":
    s = socket.create_server(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    c, _ = s.accept()
    time.sleep(1e6)
p = play("server", stdout=subprocess.PIPE, text=True)
port = int(p.stdout.readline())


def query():
    with socket.create_connection(("127.0.0.1", port)) as c:
        c.sendall(b"?")
        return c.recv(100)


async def main():
    t = asyncio.create_task(asyncio.to_thread(query))
    await asyncio.sleep(0.3)
    ready()
    await t


asyncio.run(main())
