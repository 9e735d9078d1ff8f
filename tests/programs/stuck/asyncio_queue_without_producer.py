"""DIAGNOSIS asyncio.pending_forever: consumers await a queue whose only producer has failed."""

import asyncio

from _stage import ready


async def produce(rows: "asyncio.Queue[str]") -> None:
    await rows.put("first")
    raise RuntimeError("the source is gone")


async def consume(rows: "asyncio.Queue[str]") -> None:
    while True:
        await rows.get()
        rows.task_done()


async def main() -> None:
    rows: asyncio.Queue[str] = asyncio.Queue()
    tasks = [asyncio.create_task(consume(rows), name=f"consume-{n}") for n in range(3)]
    await asyncio.gather(produce(rows), return_exceptions=True)
    await asyncio.sleep(0.1)
    ready()
    await asyncio.gather(*tasks)


asyncio.run(main())
