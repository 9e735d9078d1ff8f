"""DIAGNOSIS asyncio.pending_forever: a reply is awaited as a future that nobody will set."""

import asyncio

from _stage import ready

waiting: dict[str, asyncio.Future[bytes]] = {}


async def ask(question: str) -> bytes:
    waiting[question] = asyncio.get_running_loop().create_future()
    return await waiting[question]


async def main() -> None:
    asker = asyncio.create_task(ask("stock of 4711"), name="ask-stock")
    await asyncio.sleep(0.05)
    ready()
    print(await asker)


asyncio.run(main())
