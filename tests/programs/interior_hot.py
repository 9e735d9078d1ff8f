"""Threads and tasks that never rest: locks, calls, attributes, threads come and go all the time."""

import asyncio
import json
import random
import threading
import time

locks = [threading.RLock() if number % 2 else threading.Lock() for number in range(5)]


class Thing:
    def change(self, depth: int) -> object:
        other = Thing()
        setattr(other, random.choice("abcdefghijklmnopq"), depth)
        if depth:
            with locks[depth % 5]:
                pass
            return [other.change(depth - 1)]
        return json.loads(json.dumps({"a": [depth] * 10, str(depth): None}))


def work() -> None:
    while True:
        Thing().change(random.randint(0, 30))


async def branch(lock: asyncio.Lock, depth: int) -> None:
    async with lock:
        await asyncio.sleep(0)
    if depth:
        await asyncio.gather(*[asyncio.create_task(branch(lock, depth - 1)) for _ in range(3)])


async def grow() -> None:
    while True:
        async with asyncio.timeout(10):
            await branch(asyncio.Lock(), 4)


def renew() -> None:
    while True:
        thread = threading.Thread(target=Thing().change, args=(3,))
        thread.start()
        thread.join()


for function in (work, work, renew, lambda: asyncio.run(grow())):
    threading.Thread(target=function, daemon=True).start()
print("ready", flush=True)
time.sleep(1000)
