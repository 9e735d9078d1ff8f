"""DIAGNOSIS deadlock.in_process: three threads in a ring, each wants what its neighbour has."""

import threading

from _stage import ready

forks = [threading.Lock(), threading.RLock(), threading.Lock()]
seated = threading.Barrier(len(forks) + 1)


def dine(place: int) -> None:
    with forks[place]:
        seated.wait()
        with forks[(place + 1) % len(forks)]:
            print("eats")


guests = [threading.Thread(target=dine, args=(n,), name=f"guest-{n}") for n in range(len(forks))]
for guest in guests:
    guest.start()
seated.wait()
ready()
for guest in guests:
    guest.join()
