"""Writes log records to the ring on the given descriptor from two threads, as fast as it can."""

import sys
import threading

from autopsy.ring import LogRing

ring = LogRing(int(sys.argv[1]))


def write(writer: str) -> None:
    number = 0
    while True:
        number += 1
        ring.write(float(number), 20, writer, f"{number} " + writer * (number % 1500))


for name in ("ab", "xyz"):
    threading.Thread(target=write, args=(name,), daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
