"""Makes an autopsy program misbehave, when this directory is on its PYTHONPATH.

A file beside this one that is named after a task says how; `+` at its end: in the second run too,
which only has to store the facts.
"""

import os
import signal
import sys
import time
from pathlib import Path


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def be_deaf() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        pass


def rave() -> None:
    while True:
        os.write(1, b"x" * 65536)


def talk_half() -> None:
    os.write(1, b'{"path": "/tmp/x", "status"')
    time.sleep(600)


def talk_nonsense() -> None:
    os.write(1, b"[1, 2]\n")
    os._exit(0)


def say_nothing() -> None:
    os._exit(0)


def hang_up() -> None:
    os.closerange(0, 3)
    time.sleep(600)


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def order_of(words: list[str]) -> str:
    """Return how this program is to misbehave, if it is an autopsy of one of those tasks."""
    if words[1:4] != ["-m", "autopsy", "capture"]:
        return ""
    task = Path(words[words.index("--out") + 1]).name.rsplit("-", 2)[0]
    order = Path(__file__).with_name(task)
    if not order.exists():
        return ""
    how = order.read_text()
    second = "--facts-only" in words
    return "" if second and not how.endswith("+") else how.rstrip("+")


if how := order_of(sys.orig_argv):
    globals()[how]()
