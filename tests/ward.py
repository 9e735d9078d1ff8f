"""Python processes to examine, each given as a piece of source."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def patient(source: str, *, prefix: Sequence[str] = ()) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program; yield it once it has printed a line, kill it afterwards.

    `say_ready()` is there for it to call. What it starts must end when its input closes.
    """
    program = "def say_ready(*words):\n    print('ready', *words, flush=True)\n"
    process = subprocess.Popen(
        [*prefix, sys.executable, "-c", program + textwrap.dedent(source)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"ready")
            yield process
        finally:
            process.kill()
