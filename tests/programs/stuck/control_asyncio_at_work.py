"""DIAGNOSIS none.progressing: healthy; two hundred tasks take turns, each naps and counts on."""

import asyncio
import random

from _stage import ready

counts = [0] * 200


async def count(number: int) -> None:
    while True:
        await asyncio.sleep(random.uniform(0.05, 0.15))
        counts[number] += sum(range(200))


async def main() -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(len(counts)):
            group.create_task(count(number), name=f"count-{number}")
        await asyncio.sleep(0.2)
        ready()


asyncio.run(main())
