"""DIAGNOSIS deadlock.cross_process: parent and child each hold the lock that the other wants."""

import multiprocessing
from multiprocessing.synchronize import Event, Lock

from _stage import die_with_parent, ready


def fill(disk: Lock, index: Lock, begun: Event) -> None:
    die_with_parent()
    with index:
        begun.set()
        with disk:
            print("filled")


def main() -> None:
    context = multiprocessing.get_context("fork")
    disk, index, begun = context.Lock(), context.Lock(), context.Event()
    with disk:
        context.Process(target=fill, args=(disk, index, begun)).start()
        begun.wait()
        ready()
        with index:
            print("indexed")


main()
