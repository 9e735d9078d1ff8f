"""DIAGNOSIS asyncio.deadlock: three order tasks take three asyncio.Locks in a ring; a metrics task
goes on ticking.
"""

# ruff: noqa: RUF006

import asyncio

from _stage import ready


class Stock:
    def __init__(self):
        self.locks = {k: asyncio.Lock() for k in ("bolts", "nuts", "gears")}

    async def take(self, first, second):
        async with self.locks[first]:
            await asyncio.sleep(0.1)
            async with self.locks[second]:
                return True


async def metrics():
    while True:
        await asyncio.sleep(0.4)


async def main():
    s = Stock()
    asyncio.create_task(metrics(), name="metrics")
    pairs = [("bolts", "nuts"), ("nuts", "gears"), ("gears", "bolts")]
    asyncio.get_running_loop().call_later(0.3, ready)
    async with asyncio.TaskGroup() as tg:
        for p in pairs:
            tg.create_task(s.take(*p), name="-".join(p))


asyncio.run(main())
