"""DIAGNOSIS asyncio.pending_forever: gather() of consumers on an asyncio.Queue whose producer task
died of an exception.
"""

# ruff: noqa: F841, RUF006

import asyncio

from _stage import ready


async def produce(q):
    await q.put(1)
    raise ValueError("feed closed")


async def consume(q):
    while True:
        await q.get()
        q.task_done()


async def main():
    q = asyncio.Queue()
    p = asyncio.create_task(produce(q))
    cs = [asyncio.create_task(consume(q)) for _ in range(3)]
    await asyncio.sleep(0.2)
    ready()
    await asyncio.gather(*cs)


asyncio.run(main())
