"""DIAGNOSIS blocked.child_process: a child cannot end, since its output is a pipe nobody reads."""

import subprocess
import sys

from _stage import die_with_parent, ready

REPORT = "for page in range(20000): print('page', page, '-' * 60)"


def export() -> int:
    child = subprocess.Popen(
        [sys.executable, "-c", REPORT], stdout=subprocess.PIPE, preexec_fn=die_with_parent
    )
    ready()
    return child.wait()


export()
