"""Tasks of asyncio that wait for everything there is to wait for."""

import asyncio
import contextlib
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable
from typing import Any

FOREVER = 1000
known: list[Any] = []
stop: asyncio.Event


async def sleeper() -> None:
    await asyncio.sleep(FOREVER)


async def forgotten() -> None:
    await asyncio.get_running_loop().create_future()


async def remembered() -> None:
    future = asyncio.get_running_loop().create_future()
    known.append(future)
    await future


async def reads(reader: asyncio.StreamReader) -> None:
    await reader.read(10)


async def receives(end: socket.socket) -> None:
    await asyncio.get_running_loop().sock_recv(end, 10)


async def in_thread() -> None:
    await asyncio.to_thread(time.sleep, 20)


async def limited(event: asyncio.Event) -> None:
    async with asyncio.timeout(FOREVER):
        await event.wait()


async def consumes(items: "asyncio.Queue[int]") -> None:
    await items.get()


async def ticks() -> AsyncIterator[int]:
    yield 1
    await asyncio.sleep(FOREVER)


async def counts() -> None:
    async for _ in ticks():
        pass


async def grouped() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(forgotten(), name="child")


async def shielded() -> None:
    await asyncio.shield(forgotten())


async def awaits(others: list["asyncio.Task[None]"], index: int) -> None:
    await asyncio.sleep(0)
    await others[index]


async def takes(first: asyncio.Lock, second: asyncio.Lock) -> None:
    async with first:
        await asyncio.sleep(0.01)
        async with second:
            pass


async def keeps(lock: asyncio.Lock) -> None:
    await lock.acquire()
    try:
        await asyncio.sleep(FOREVER)
    finally:
        lock.release()


@contextlib.asynccontextmanager
async def held(lock: asyncio.Lock) -> AsyncIterator[None]:
    async with lock:
        yield


async def keeps_managed(lock: asyncio.Lock) -> None:
    async with held(lock):
        await asyncio.sleep(FOREVER)


async def spins() -> None:
    while True:
        await asyncio.sleep(0)


async def main() -> None:
    global stop
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    left, right = socket.socketpair()
    one, two = socket.socketpair()
    left.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=one)
    first, second, third, fourth = (asyncio.Lock() for _ in range(4))
    event = asyncio.Event()
    known.extend((right, two, writer, event))
    tasks: dict[str, Awaitable[None]] = {
        "sleeper": sleeper(), "forgotten": forgotten(), "remembered": remembered(),
        "reads": reads(reader), "receives": receives(left), "in_thread": in_thread(),
        "limited": limited(event), "consumes": consumes(asyncio.Queue()), "counts": counts(),
        "grouped": grouped(), "shielded": shielded(), "takes-1": takes(first, second),
        "takes-2": takes(second, first), "keeps": keeps(third), "wants": takes(third, third),
        "keeps_managed": keeps_managed(fourth), "wants_managed": takes(fourth, fourth),
    }  # fmt: skip
    known.append([asyncio.create_task(one, name=name) for name, one in tasks.items()])
    ring: list[asyncio.Task[None]] = []
    for index in range(3):
        ring.append(asyncio.create_task(awaits(ring, (index + 1) % 3), name=f"ring-{index}"))
    both = asyncio.gather(*(asyncio.create_task(forgotten(), name=f"both-{n}") for n in (1, 2)))
    known.append(asyncio.create_task(asyncio.wait_for(both, FOREVER), name="wait_for"))
    await asyncio.sleep(0.2)
    print("ready", flush=True)
    await stop.wait()


asyncio.run(main())
