"""DIAGNOSIS asyncio.loop_blocked|busy.python: a handler computes in the event loop and never
awaits.
"""

import asyncio

from _stage import ready


def optimise(xs):
    best = None
    while True:
        for i, x in enumerate(xs):
            best = x if best is None or x + i % 3 < best else best


async def tick():
    while True:
        await asyncio.sleep(0.1)


async def handler():
    await asyncio.sleep(0.3)
    ready()
    optimise(list(range(1000)))


async def main():
    await asyncio.gather(tick(), handler())


asyncio.run(main())
