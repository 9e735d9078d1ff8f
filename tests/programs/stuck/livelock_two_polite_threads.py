"""DIAGNOSIS busy.livelock: two threads keep giving up a lock for each other, at the same time."""

import threading
import time

from _stage import ready

fork, spoon = threading.Lock(), threading.Lock()
together = threading.Barrier(2)


def eat(first: threading.Lock, second: threading.Lock) -> None:
    done = False
    while not done:
        with first:
            together.wait()
            done = second.acquire(blocking=False)
            together.wait()
    print("fed")


guests = [
    threading.Thread(target=eat, args=pair, name=f"guest-{number}")
    for number, pair in enumerate([(fork, spoon), (spoon, fork)])
]
for guest in guests:
    guest.start()
time.sleep(0.3)
ready()
for guest in guests:
    guest.join()
