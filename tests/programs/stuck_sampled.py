"""A supervised process that notes its stacks and then waits for ever in a function of its own.

Arguments: the descriptor of the stack ring, what to wait in: `thread` or `tasks`.
"""

import asyncio
import itertools
import os
import sys
import threading
import time

from autopsy.sampler import Sampler


def note(sampler: Sampler) -> None:
    """Take twenty samples a second, and say so when the last of them must show the wait."""
    for number in itertools.count(1):
        time.sleep(0.05)
        sampler._due = 0.0
        sampler.turn(1)
        if number == 15:
            os.write(1, b"ready\n")


def wait_for_ever() -> None:
    threading.Event().wait()


async def waits_for(something: asyncio.Event) -> None:
    await something.wait()


async def have_tasks() -> None:
    something = asyncio.Event()
    tasks = [asyncio.create_task(waits_for(something)) for _ in range(30)]
    await asyncio.gather(*tasks)


fd, what = int(sys.argv[1]), sys.argv[2]
threading.Thread(target=note, args=(Sampler(fd),), name="supervisor-puls", daemon=True).start()
if what == "tasks":
    asyncio.run(have_tasks())
else:
    wait_for_ever()
