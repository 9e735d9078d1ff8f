"""DIAGNOSIS deadlock.in_process: a branch with `continue` leaves the output lock acquired; the same
thread blocks on it at the next row, the other parser too.
"""

import threading
import time

from _stage import ready

out = threading.Lock()
rows = [["1", "a"], ["2", "b"], ["x"], ["3", "c"]]
result = []


def parse(part):
    time.sleep(0.05 * part)
    for row in rows * 50:
        out.acquire()
        if len(row) != 2:
            result.append(None)
            continue
        result.append(int(row[0]))
        out.release()
        time.sleep(0.01)


ts = [threading.Thread(target=parse, args=(n,), name=f"parser-{n}") for n in range(2)]
[t.start() for t in ts]
time.sleep(0.5)
ready()
for t in ts:
    t.join()
