"""A program that is stuck, to try `autopsy PID` on: two threads, two locks, opposite orders."""

import threading

first, second = threading.Lock(), threading.Lock()
both_hold_one = threading.Barrier(2)


def move(held: threading.Lock, wanted: threading.Lock) -> None:
    with held:
        both_hold_one.wait()
        with wanted:
            print("never printed")


ways = [
    threading.Thread(target=move, args=(first, second), name="ann"),
    threading.Thread(target=move, args=(second, first), name="bob"),
]
for way in ways:
    way.start()
for way in ways:
    way.join()
