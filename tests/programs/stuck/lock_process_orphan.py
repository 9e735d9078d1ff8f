"""DIAGNOSIS deadlock.cross_process: the process that held a multiprocessing lock was killed."""

import multiprocessing
import os
import signal
from multiprocessing.synchronize import Lock

from _stage import ready


def crash(lock: Lock) -> None:
    lock.acquire()
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    context = multiprocessing.get_context("fork")
    printer = context.Lock()
    child = context.Process(target=crash, args=(printer,))
    child.start()
    child.join()
    ready()
    with printer:
        print("printing")


main()
