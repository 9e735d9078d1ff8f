"""DIAGNOSIS leak.memory_python: a background thread appends slotted dataclass events and byte
strings to a history that is never cut; main waits in a timed loop.
"""

import dataclasses
import threading
import time

from _stage import ready


@dataclasses.dataclass(slots=True)
class Event:
    seq: int
    kind: str
    body: bytes
    tags: tuple


history = []
full = threading.Event()


def collect():
    seq = 0
    while len(history) < 2_500_000:
        for _ in range(2000):
            history.append(Event(seq, f"click{seq % 7}", b"%d" % seq * 60, (seq, seq + 1)))
            seq += 1
        if len(history) == 600_000:
            full.set()
        time.sleep(0 if not full.is_set() else 0.05)
    time.sleep(1e6)


threading.Thread(target=collect, name="collector", daemon=True).start()
full.wait()
ready()
while True:
    time.sleep(1)
