"""DIAGNOSIS asyncio.deadlock: two coroutines take two asyncio.Locks in opposite order; the loop
itself idles in epoll.
"""

import asyncio

from _stage import ready


class Room:
    def __init__(self):
        self.lock = asyncio.Lock()


async def move(a, b):
    async with a.lock:
        await asyncio.sleep(0.1)
        async with b.lock:
            pass


async def main():
    x, y = Room(), Room()
    ts = [
        asyncio.create_task(move(x, y), name="x-to-y"),
        asyncio.create_task(move(y, x), name="y-to-x"),
    ]
    await asyncio.sleep(0.3)
    ready()
    await asyncio.gather(*ts)


asyncio.run(main())
