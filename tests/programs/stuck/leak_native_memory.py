"""DIAGNOSIS leak.memory_native: a C library allocates memory and never frees it."""

import time

from _stage import LONG_S, native_without_gil, ready

library = native_without_gil()
PIECE, ENOUGH_MIB, MOST_MIB = 1 << 20, 200, 600


def decode() -> None:
    library.forget(PIECE)


for mib in range(MOST_MIB):
    decode()
    if mib == ENOUGH_MIB:
        ready()
    time.sleep(0.001 if mib < ENOUGH_MIB else 0.01)
time.sleep(LONG_S)
