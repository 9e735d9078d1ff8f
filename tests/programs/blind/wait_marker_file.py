"""DIAGNOSIS blocked.polling: waits for a _SUCCESS marker file with os.path.exists() and
sleep(0.05); nobody will write it.
"""

import os
import tempfile
import time

from _stage import ready

stage = tempfile.mkdtemp(prefix="stage_")


def partition_ready(day):
    return os.path.exists(os.path.join(stage, day, "_SUCCESS"))


def wait_for(day):
    while not partition_ready(day):
        time.sleep(0.05)


ready()
wait_for("2024-05-01")
