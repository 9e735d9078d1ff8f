"""A process that is hard to look at, in the way that its first argument names.

It says `ready <pid>` of the process that is meant, which is not always the first one.
"""

import ctypes
import os
import signal
import sys
import threading
import time

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4


def ready(pid: int | None = None) -> None:
    print(f"ready {pid or os.getpid()}", flush=True)


def nap() -> None:
    time.sleep(100_000)


def threads() -> None:
    """Be a thousand threads."""
    threading.stack_size(128 * 1024)
    gate = threading.Event()
    for _ in range(1000):
        threading.Thread(target=gate.wait, daemon=True).start()
    ready()
    gate.wait()


def deep() -> None:
    """Sleep 50,000 calls deep."""
    sys.setrecursionlimit(60_000)

    def fall(depth: int) -> None:
        if depth == 0:
            ready()
            nap()
        fall(depth - 1)

    fall(50_000)


def undumpable() -> None:
    """Let nobody look who has not the capability to."""
    LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    ready()
    nap()


def plain() -> None:
    """Sleep, as whoever started it."""
    ready()
    nap()


def busy() -> None:
    """Count for ever, and write down how far, so that others can see it go on."""
    shared = open(sys.argv[2], "r+b", buffering=0)  # noqa: SIM115
    number = 0
    ready()
    while True:
        number += 1
        if number % 1000 == 0:
            shared.seek(0)
            shared.write(number.to_bytes(8, "little"))


def storm() -> None:
    """Get a thousand signals a second, and count."""
    counted = [0]
    signal.signal(signal.SIGALRM, lambda *_: counted.append(counted.pop() + 1))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    ready()
    while True:
        sum(range(1000))


def forks() -> None:
    """Make children that end at once, all the time."""
    ready()
    while True:
        if os.fork() == 0:
            os._exit(0)
        os.waitpid(-1, 0)


def other_user() -> None:
    """Be a process of somebody else."""
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    ready()
    nap()


def defunct() -> None:
    """Have a child that has ended with code 7, and take no notice."""
    child = os.fork()
    if child == 0:
        os._exit(7)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    ready(child)
    nap()


def headless() -> None:
    """Let the main thread leave the process to another one."""

    def go_on() -> None:
        time.sleep(0.2)
        ready()
        nap()

    threading.Thread(target=go_on).start()
    LIBC.pthread_exit(None)


if __name__ == "__main__":
    LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    globals()[sys.argv[1]]()
