"""DIAGNOSIS none.progressing: healthy; it reads what a child writes, line by line."""

import subprocess
import sys

from _stage import die_with_parent, ready

WRITER = """
import time
for number in range(10**9):
    print(number, flush=True)
    time.sleep(0.008)
"""

with subprocess.Popen(
    [sys.executable, "-c", WRITER],
    stdout=subprocess.PIPE,
    text=True,
    preexec_fn=die_with_parent,
) as child:
    assert child.stdout is not None
    total = int(child.stdout.readline())
    ready()
    for text in child.stdout:
        total += int(text)
