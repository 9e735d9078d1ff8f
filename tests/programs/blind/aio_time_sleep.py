"""DIAGNOSIS asyncio.loop_blocked: a coroutine calls a library function that sleeps with
time.sleep(): ten other tasks cannot run.
"""

import asyncio
import time

from _stage import ready


def legacy_retry():
    time.sleep(500000)


async def tick():
    while True:
        await asyncio.sleep(0.1)


async def handler():
    await asyncio.sleep(0.3)
    ready()
    legacy_retry()


async def main():
    await asyncio.gather(handler(), *(tick() for _ in range(10)))


asyncio.run(main())
