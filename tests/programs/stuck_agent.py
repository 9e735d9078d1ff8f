"""A supervised process: log ring, output and dump in shared memory, then a wait for ever.

Arguments: the descriptors of the ring, the dump and the output; `busy` to count instead.
"""

import logging
import os
import sys
import threading

from autopsy import agent


def wait_for_nothing() -> None:
    log.error("about to wait with password=hunter2")
    try:
        print(1 / 0)
    except ZeroDivisionError:
        log.exception("divided")
    os.write(1, b"ready\n")
    threading.Event().wait()


def count() -> None:
    number = 0
    os.write(1, b"ready\n")
    while number >= 0:
        number = (number + 1) % 1009


log = logging.getLogger("app")
ring_fd, dump_fd, output_fd = (int(argument) for argument in sys.argv[1:4])
agent.install(ring_fd, dump_fd)
os.write(output_fd, b"output of the task, token: abcdefghijk\n")
if sys.argv[4:] == ["busy"]:
    count()
wait_for_nothing()
