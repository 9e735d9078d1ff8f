"""DIAGNOSIS leak.tasks|asyncio.pending_forever: 8000 request tasks queue for one asyncio.Lock whose
holder awaits an answer that never comes; other small tasks sleep.
"""

import asyncio

from _stage import ready


class Session:
    def __init__(self):
        self.lock = asyncio.Lock()
        self.reply = asyncio.Event()

    async def request(self, n):
        async with self.lock:
            await self.reply.wait()


async def beat(n):
    while True:
        await asyncio.sleep(1 + n / 10)


async def main():
    s = Session()
    tasks = [asyncio.create_task(beat(n), name=f"beat-{n}") for n in range(5)]
    tasks += [asyncio.create_task(s.request(n)) for n in range(8000)]
    await asyncio.sleep(0.3)
    ready()
    await asyncio.wait(tasks)


asyncio.run(main())
