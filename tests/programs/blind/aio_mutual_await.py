"""DIAGNOSIS asyncio.deadlock: the reader task awaits the writer task and the writer awaits the
reader (cycle of awaits).
"""

import asyncio

from _stage import ready


class Link:
    def __init__(self):
        self.tasks = {}

    async def reader(self):
        await asyncio.sleep(0.05)
        await self.tasks["writer"]

    async def writer(self):
        await asyncio.sleep(0.05)
        await asyncio.shield(self.tasks["reader"])

    async def run(self):
        for f in (self.reader, self.writer):
            self.tasks[f.__name__] = asyncio.create_task(f(), name=f.__name__)
        asyncio.get_running_loop().call_later(0.4, ready)
        await asyncio.wait(self.tasks.values())


asyncio.run(Link().run())
