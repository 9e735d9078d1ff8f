"""DIAGNOSIS blocked.supervisor_pipe: prints progress to stdout; the process that started it (our
parent) never reads that pipe.
"""

import os

from _stage import die_with_parent, ready

r, w = os.pipe()
if os.fork():
    os.close(w)
    os.wait()
    os._exit(0)
die_with_parent()
os.close(r)
os.dup2(w, 1)
os.close(w)


def convert(n):
    for i in range(n):
        if i == 500:
            ready()
        print(f"row {i} converted, {n - i} to go", flush=True)


convert(100000)
os._exit(0)
