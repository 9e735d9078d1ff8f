"""DIAGNOSIS asyncio.loop_blocked|blocked.file_lock: a coroutine calls fcntl.flock() (blocking) in
the loop's thread; another process has the lock.
"""

# ruff: noqa: RUF006, SIM115

import asyncio
import fcntl
import os
import subprocess
import sys
import tempfile
import time

from _role import play, role
from _stage import ready

if role() == "cron":
    f = open(sys.argv[2], "w")
    fcntl.flock(f, fcntl.LOCK_EX)
    print("held", flush=True)
    time.sleep(1e6)

path = os.path.join(tempfile.mkdtemp(prefix="files_"), "state.lock")
p = play("cron", path, stdout=subprocess.PIPE, text=True)
p.stdout.readline()


class StateFile:
    async def __aenter__(self):
        self.f = open(path, "w")
        fcntl.flock(self.f, fcntl.LOCK_EX)
        return self.f

    async def __aexit__(self, *exc):
        self.f.close()


async def poller():
    while True:
        await asyncio.sleep(0.1)


async def main():
    asyncio.create_task(poller())
    await asyncio.sleep(0.25)
    ready()
    async with StateFile():
        pass


asyncio.run(main())
