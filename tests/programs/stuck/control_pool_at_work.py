"""DIAGNOSIS none.progressing: healthy; three threads pack pieces, the main thread takes them."""

import itertools
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

from _stage import ready


def pack(number: int) -> int:
    time.sleep(0.004)
    text = b" ".join(str(one).encode() for one in range(number, number + 20_000))
    return len(zlib.compress(text, 6))


with ThreadPoolExecutor(3, thread_name_prefix="packer") as pool:
    ready()
    for start in itertools.count(0, 12):
        sum(pool.map(pack, range(start, start + 12)))
