"""DIAGNOSIS asyncio.pending_forever|blocked.external: await reader.readline() from a peer that went
silent after the greeting.
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
    c.sendall(b"hello\n")
    time.sleep(1e6)
p = play("server", stdout=subprocess.PIPE, text=True)
port = int(p.stdout.readline())


async def main():
    r, w = await asyncio.open_connection("127.0.0.1", port)
    await r.readline()
    w.write(b"subscribe\n")
    await w.drain()
    ready()
    await r.readline()


asyncio.run(main())
