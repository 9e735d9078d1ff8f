"""DIAGNOSIS none.progressing (control): streams data through gzip into temporary files and reads
them back; a new file each time.
"""

import gzip
import random
import tempfile
import time

from _stage import ready


def archive(n):
    rnd = random.Random(n)
    with tempfile.TemporaryFile(prefix="file_") as f:
        with gzip.GzipFile(fileobj=f, mode="wb", compresslevel=3) as g:
            for _ in range(20):
                g.write(rnd.randbytes(3000) * 4)
                time.sleep(0.002)
        f.seek(0)
        with gzip.GzipFile(fileobj=f) as g:
            return sum(len(b) for b in iter(lambda: g.read(8192), b""))


ready()
n = 0
while True:
    archive(n)
    n += 1
