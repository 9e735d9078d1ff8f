"""DIAGNOSIS asyncio.loop_blocked|busy.python: a coroutine computes for ever in pure Python without
an await; all other tasks starve.
"""

# ruff: noqa: RUF006

import asyncio

from _stage import ready


def collatz(n):
    steps = 0
    while n != 1:
        n = 3 * n + 1 if n & 1 else n >> 1
        steps += 1
    return steps


async def longest():
    best, n = 0, 1
    while best < 10**9:
        best = max(best, collatz(n))
        n = n % 5000 + 1
    return best


async def heartbeat():
    while True:
        await asyncio.sleep(0.1)


async def main():
    asyncio.create_task(heartbeat())
    await asyncio.sleep(0.2)
    ready()
    await longest()


asyncio.run(main())
