"""DIAGNOSIS asyncio.deadlock: task `fetch` awaits task `store` and `store` awaits `fetch`."""

import asyncio

from _stage import ready

t = {}


async def fetch():
    await asyncio.sleep(0.1)
    return await t["store"]


async def store():
    await asyncio.sleep(0.1)
    return await asyncio.wait_for(asyncio.shield(t["fetch"]), None)


async def main():
    for f in (fetch, store):
        t[f.__name__] = asyncio.create_task(f(), name=f.__name__)
    await asyncio.sleep(0.3)
    ready()
    await asyncio.wait(t.values())


asyncio.run(main())
