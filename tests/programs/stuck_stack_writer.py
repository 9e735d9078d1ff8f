"""Appends entries to the stack ring on the given descriptor as fast as it can.

Each says its number, and has a length and letters that follow from it.
"""

import sys

from autopsy.stackring import Full, StackRing

ring = StackRing(int(sys.argv[1]))
print("ready", flush=True)
number = 0
while True:
    number += 1
    body = b"%d " % number + b"abcdefghij"[number % 10 :] * (number % 199)
    try:
        ring.append(body)
    except Full:
        ring.turn()
        ring.append(body)
