"""DIAGNOSIS leak.zombies: Popen objects are kept in a list and never polled: 60 dead convert
processes; the job loop works on.
"""

import subprocess
import time

from _stage import ready

jobs = []


def convert(path):
    jobs.append(subprocess.Popen(["true", path]))


for n in range(60):
    convert(f"{n}.jpg")
time.sleep(0.5)
ready()
while True:
    time.sleep(0.2)
