"""Waits for a child that cannot end: it writes into a pipe that nobody reads."""

import subprocess
import sys

# The child writes to our standard output once, so that the test knows it has begun.
WRITER = "import os, sys; os.write(2, b'ready\\n'); os.write(1, b'x' * 1_000_000)"
child = subprocess.Popen(
    [sys.executable, "-c", WRITER], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
    stderr=sys.stdout.fileno(),
)  # fmt: skip
child.wait()
