"""DIAGNOSIS none.progressing: healthy; a large table stays as large as it is while it is used."""

import random
import time

from _stage import ready

table = {number: f"article {number}" * 12 for number in range(600_000)}


def look_up(number: int) -> int:
    return len(table[number]) + sum(map(ord, table[number]))


ready()
while True:
    for _ in range(300):
        look_up(random.randrange(len(table)))
    time.sleep(0.01)
