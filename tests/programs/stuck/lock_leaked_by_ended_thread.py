"""DIAGNOSIS deadlock.in_process: a thread failed between acquire and release; its lock stays."""

import contextlib
import threading

from _stage import ready

ledger_lock = threading.Lock()


def post(amount: str) -> None:
    ledger_lock.acquire()
    with contextlib.suppress(ValueError):
        print(int(amount))
        ledger_lock.release()


def balance() -> None:
    with ledger_lock:
        print("balanced")


first = threading.Thread(target=post, args=("twelve",), name="post")
first.start()
first.join()
ready()
balance()
