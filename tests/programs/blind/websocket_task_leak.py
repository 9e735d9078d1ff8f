"""DIAGNOSIS leak.tasks: a gateway creates a task per message which waits for an acknowledgement
that never comes: 9000 tasks of one shape (and a live ticker).
"""

# ruff: noqa: RUF006

import asyncio

from _stage import ready

acks = {}


async def send_with_ack(n):
    fut = acks[n] = asyncio.get_running_loop().create_future()
    return await fut


async def ticker():
    while True:
        await asyncio.sleep(0.5)


async def main():
    keep = set()
    asyncio.create_task(ticker(), name="ticker")
    for n in range(9000):
        t = asyncio.create_task(send_with_ack(n))
        keep.add(t)
        t.add_done_callback(keep.discard)
        if n % 500 == 0:
            await asyncio.sleep(0)
    await asyncio.sleep(0.1)
    ready()
    await asyncio.Event().wait()


asyncio.run(main())
