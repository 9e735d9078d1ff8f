"""DIAGNOSIS asyncio.loop_blocked|deadlock.in_process: run_coroutine_threadsafe(…).result() called
in the loop's own thread: the loop waits for itself.
"""

# ruff: noqa: F841, RUF006

import asyncio

from _stage import ready


async def load():
    return 1


def sync_api(loop):
    return asyncio.run_coroutine_threadsafe(load(), loop).result()


async def tick():
    while True:
        await asyncio.sleep(0.1)


async def main():
    t = asyncio.create_task(tick())
    await asyncio.sleep(0.3)
    ready()
    sync_api(asyncio.get_running_loop())


asyncio.run(main())
