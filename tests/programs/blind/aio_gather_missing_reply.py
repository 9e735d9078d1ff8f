"""DIAGNOSIS asyncio.pending_forever: gather() over five lookups of which one waits on a queue
nobody fills.
"""

# ruff: noqa: RUF006

import asyncio

from _stage import ready

inbox = {n: asyncio.Queue() for n in range(5)}


async def lookup(n):
    return await inbox[n].get()


async def responder():
    for n in (0, 1, 3, 4):
        await asyncio.sleep(0.02)
        inbox[n].put_nowait(n * n)


async def main():
    asyncio.create_task(responder())
    asyncio.get_running_loop().call_later(0.4, ready)
    return await asyncio.gather(*(lookup(n) for n in range(5)))


asyncio.run(main())
