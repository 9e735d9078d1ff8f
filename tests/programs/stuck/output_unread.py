"""DIAGNOSIS blocked.supervisor_pipe: its output is full, who started it does not read it."""

import os
import sys

from _stage import ready

if not os.readlink("/proc/self/fd/1").startswith("pipe:"):
    sys.exit("the output has to be a pipe")
ready()
while True:
    print("processed another row, all is well")
