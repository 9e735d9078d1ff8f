"""DIAGNOSIS asyncio.loop_blocked: a coroutine reads from a socket in the blocking way."""

import asyncio
import socket

from _stage import ready

near, far = socket.socketpair()


async def beat() -> None:
    while True:
        await asyncio.sleep(0.02)


async def read_device() -> bytes:
    ready()
    return near.recv(64)


async def main() -> None:
    beats = asyncio.create_task(beat(), name="beat")
    await asyncio.sleep(0.1)
    print(await read_device(), beats)


asyncio.run(main())
