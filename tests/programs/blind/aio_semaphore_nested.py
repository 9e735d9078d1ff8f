"""DIAGNOSIS asyncio.deadlock|asyncio.pending_forever: each of three page tasks holds one of three
semaphore slots and asks for a second one for its images.
"""

import asyncio

from _stage import ready

slots = asyncio.Semaphore(3)


async def image(n):
    async with slots:
        await asyncio.sleep(0.01)


async def page(n):
    async with slots:
        await asyncio.sleep(0.1)
        await image(n)


async def main():
    asyncio.get_running_loop().call_later(0.4, ready)
    await asyncio.gather(*(page(n) for n in range(3)))


asyncio.run(main())
