"""DIAGNOSIS asyncio.loop_blocked|deadlock.in_process|wait.no_waker: a callback in the loop's thread
calls run_coroutine_threadsafe(...).result(): the loop waits for itself.
"""

import asyncio

from _stage import ready


async def fetch(key):
    await asyncio.sleep(0.01)
    return key


class SyncFacade:
    def __init__(self, loop):
        self.loop = loop

    def get(self, key):
        return asyncio.run_coroutine_threadsafe(fetch(key), self.loop).result()


async def main():
    facade = SyncFacade(asyncio.get_running_loop())
    await asyncio.sleep(0.1)
    ready()
    facade.get("a")


asyncio.run(main())
