"""DIAGNOSIS none.progressing|none.idle (control): 120 sensor threads, each does a bit every 50–300
ms under a shared lock for microseconds.
"""

import random
import threading
import time

from _stage import ready

lock, totals = threading.Lock(), {}


def sensor(i):
    rnd = random.Random(i)
    while True:
        time.sleep(rnd.uniform(0.05, 0.3))
        v = sum(rnd.random() for _ in range(50))
        with lock:
            totals[i] = totals.get(i, 0) + v


ts = [
    threading.Thread(target=sensor, args=(i,), daemon=True, name=f"sensor-{i}") for i in range(120)
]
[t.start() for t in ts]
ready()
ts[0].join()
