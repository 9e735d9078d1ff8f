"""DIAGNOSIS asyncio.deadlock|asyncio.pending_forever: a coroutine takes an asyncio.Lock that it
already holds, two calls further down.
"""

import asyncio

from _stage import ready


class Wallet:
    def __init__(self):
        self.lock = asyncio.Lock()
        self.n = 5

    async def get(self):
        async with self.lock:
            return self.n

    async def spend(self):
        async with self.lock:
            self.n = await self.get() - 1


async def main():
    w = Wallet()
    ready()
    await w.spend()


asyncio.run(main())
