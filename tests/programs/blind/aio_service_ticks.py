"""DIAGNOSIS asyncio.pending_forever: a TaskGroup: one task waits for an Event that nobody sets, a
sibling still reports once a second.
"""

import asyncio

from _stage import ready


async def report():
    while True:
        await asyncio.sleep(1)


async def migrate(ok):
    await ok.wait()
    return "migrated"


async def main():
    ok = asyncio.Event()
    async with asyncio.TaskGroup() as g:
        g.create_task(report(), name="report")
        g.create_task(migrate(ok), name="migrate")
        await asyncio.sleep(0.1)
        ready()


asyncio.run(main())
