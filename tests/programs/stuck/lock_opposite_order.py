"""DIAGNOSIS deadlock.in_process: two threads take the same two locks, each in its own order."""

import threading

from _stage import ready

accounts, audit = threading.Lock(), threading.Lock()
both_have_one = threading.Barrier(3)


def pay() -> None:
    with accounts:
        both_have_one.wait()
        with audit:
            print("paid")


def review() -> None:
    with audit:
        both_have_one.wait()
        with accounts:
            print("reviewed")


clerks = [threading.Thread(target=act, name=act.__name__) for act in (pay, review)]
for clerk in clerks:
    clerk.start()
both_have_one.wait()
ready()
for clerk in clerks:
    clerk.join()
