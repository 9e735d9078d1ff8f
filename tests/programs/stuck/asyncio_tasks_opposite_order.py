"""DIAGNOSIS asyncio.deadlock: two tasks each hold the asyncio.Lock that the other one awaits."""

import asyncio

from _stage import ready


class Shelf:
    def __init__(self, label: str) -> None:
        self.label = label
        self.free = asyncio.Lock()


async def move(source: Shelf, target: Shelf) -> None:
    async with source.free:
        await asyncio.sleep(0.1)
        async with target.free:
            print("moved from", source.label, "to", target.label)


async def main() -> None:
    left, right = Shelf("left"), Shelf("right")
    async with asyncio.TaskGroup() as group:
        group.create_task(move(left, right), name="rightwards")
        group.create_task(move(right, left), name="leftwards")
        await asyncio.sleep(0.3)
        ready()


asyncio.run(main())
