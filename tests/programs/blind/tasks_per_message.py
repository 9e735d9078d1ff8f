"""DIAGNOSIS leak.tasks: create_task() for every message; each waits for an acknowledgement that
never comes: 9000 tasks and growing by 20 a second.
"""

import asyncio

from _stage import ready


class Bus:
    def __init__(self):
        self.acks = {}

    async def deliver(self, n):
        self.acks[n] = f = asyncio.get_running_loop().create_future()
        await f


async def main():
    bus, kept, n = Bus(), set(), 0
    while True:
        for _ in range(9000 if n == 0 else 1):
            kept.add(asyncio.create_task(bus.deliver(n)))
            n += 1
        await asyncio.sleep(0.05)
        if n == 9000:
            ready()


asyncio.run(main())
