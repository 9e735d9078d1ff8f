"""DIAGNOSIS busy.native: lzma.compress() of 150 MB of badly matching data with an extreme search
depth, in one call (minutes, GIL released).
"""

import lzma
import random

from _stage import ready

table = bytes(97 + (i & 1) for i in range(256))
data = random.Random(1).randbytes(3 << 20).translate(table) * 50
ready()
lzma.compress(
    data,
    format=lzma.FORMAT_RAW,
    filters=[
        {
            "id": lzma.FILTER_LZMA2,
            "dict_size": 1 << 20,
            "nice_len": 273,
            "mode": lzma.MODE_NORMAL,
            "mf": lzma.MF_BT4,
            "depth": 100000,
        }
    ],
)
