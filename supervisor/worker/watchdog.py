"""Ends the workers of a node that stands still, before its lease is over: a program of its own.

A node that is stopped cannot fence itself, and a worker that holds the GIL cannot mind a clock. So
the node writes until when its workers may run (CLOCK_BOOTTIME) into memory that this process reads;
when that time is over, whatever descends from the node's zygotes is killed, those themselves
excepted. It leaves when the node closes its line or dies. Light: it runs beside every node that
shares a store.
"""

from __future__ import annotations

import argparse
import mmap
import os
import select
import signal
from contextlib import suppress

from supervisor.clock import SystemClock
from supervisor.worker import tree

SIZE = 4096
NAME = "supervisor-lease"
#: Words of the memory: until when, how many processes are spared, and their pids.
UNTIL, SPARED, FIRST_SPARED = 0, 1, 2
MOST_SPARED = 64
#: Suspended time is not slept through: look at the clock that counts it this often.
LOOK_EVERY_S = 1.0


class Watch:
    """The memory in which a node says until when its workers may run."""

    def __init__(self, fd: int) -> None:
        self._view = memoryview(mmap.mmap(fd, SIZE))
        self._words = self._view.cast("Q")
        self._times = self._view.cast("d")

    def vouch(self, until_boot: float, spare: set[int]) -> None:
        """Let everything run until then, and these processes for ever."""
        pids = sorted(spare)[:MOST_SPARED]
        for at, pid in enumerate(pids):
            self._words[FIRST_SPARED + at] = pid
        self._words[SPARED] = len(pids)
        self._times[UNTIL] = until_boot

    @property
    def until_boot(self) -> float:
        """Until when everything may run."""
        return float(self._times[UNTIL])

    @property
    def spared(self) -> set[int]:
        """Who runs on after that."""
        return set(self._words[FIRST_SPARED : FIRST_SPARED + self._words[SPARED]])


def end_marked(node: int, mark: bytes, spare: set[int]) -> int:
    """SIGKILL what bears the mark, with all below it, except the node's own; return how many."""
    ended = 0
    kept = spare | {node, os.getpid()}
    for _ in range(tree.MAX_ROUNDS):
        found = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                 if pid not in kept and _bears(pid, mark)]  # fmt: skip
        if not found:
            break
        for pid in found:
            born = tree.start_ticks(pid)
            tree.send_signal(pid, signal.SIGSTOP, born=born)
            ended += tree.kill_descendants(pid) + tree.send_signal(pid, signal.SIGKILL, born=born)
    return ended


def _bears(pid: int, mark: bytes) -> bool:
    with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        return mark in file.read().split(b"\0") and tree.is_alive(pid)
    return False


def watch(memory: Watch, node: int, mark: bytes) -> None:
    """Watch until standard input, the node's line, is closed."""
    clock = SystemClock()
    poll = select.poll()
    poll.register(0, select.POLLIN)
    while True:
        left_s = memory.until_boot - clock.boot()
        if left_s <= 0:
            end_marked(node, mark, memory.spared)
        pause_s = min(LOOK_EVERY_S, left_s) if left_s > 0 else LOOK_EVERY_S
        if poll.poll(pause_s * 1000 + 1):
            return


def _main() -> None:
    parser = argparse.ArgumentParser(prog="supervisor.worker.watchdog", description=__doc__)
    parser.add_argument("--memory", type=int, required=True, help="descriptor of the memory")
    parser.add_argument("--mark", required=True, help="NAME=VALUE in the environment of what ends")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the node's to act on: this ends with it
    node = os.getppid()
    watch(Watch(options.memory), node, options.mark.encode())


if __name__ == "__main__":
    _main()
