"""DIAGNOSIS asyncio.loop_blocked|blocked.external: requests.get() inside a coroutine to a server
that is silent: the loop is blocked in recv().
"""

import asyncio
import socket
import subprocess

from _role import play, role
from _stage import cannot, ready

try:
    import requests
except ImportError:
    cannot("requests is not installed")

if role() == "server":
    s = socket.create_server(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    kept = []
    while True:
        kept.append(s.accept())
p = play("server", stdout=subprocess.PIPE, text=True)
url = f"http://127.0.0.1:{int(p.stdout.readline())}/price"


async def tick():
    while True:
        await asyncio.sleep(0.2)


async def handler():
    await asyncio.sleep(0.3)
    ready()
    return requests.get(url).json()


async def main():
    await asyncio.gather(tick(), handler())


asyncio.run(main())
