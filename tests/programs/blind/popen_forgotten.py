"""DIAGNOSIS leak.zombies: fire-and-forget Popen objects kept in a history list and never polled: 60
defunct children; one more now and then.
"""

import subprocess
import time

from _stage import ready

history = []


def notify(n):
    history.append(subprocess.Popen(["true"]))


for n in range(60):
    notify(n)
time.sleep(0.3)
ready()
while True:
    time.sleep(3)
    notify(0)
