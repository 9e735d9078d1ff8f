"""DIAGNOSIS asyncio.loop_blocked: a coroutine calls time.sleep, nothing else of the loop runs."""

import asyncio
import time

from _stage import LONG_S, ready


async def beat() -> None:
    while True:
        await asyncio.sleep(0.02)


async def retry() -> None:
    ready()
    time.sleep(LONG_S)


async def main() -> None:
    await asyncio.gather(beat(), retry())


asyncio.run(main())
