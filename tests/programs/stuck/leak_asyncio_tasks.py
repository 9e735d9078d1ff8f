"""DIAGNOSIS leak.tasks: a task is made for every message, and all 12,000 await the same event."""

import asyncio

from _stage import ready


class Feed:
    def __init__(self) -> None:
        self.fresh = asyncio.Event()
        self.readers: set[asyncio.Task[None]] = set()

    async def reader(self) -> None:
        await self.fresh.wait()

    def message(self) -> None:
        self.readers.add(asyncio.create_task(self.reader()))


async def main() -> None:
    feed = Feed()
    for _ in range(12_000):
        feed.message()
    await asyncio.sleep(0.2)
    ready()
    await asyncio.gather(*feed.readers)


asyncio.run(main())
