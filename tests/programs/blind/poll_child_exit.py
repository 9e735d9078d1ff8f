"""DIAGNOSIS blocked.child_process|blocked.polling: `while proc.poll() is None: sleep(0.1)` on a
child that never ends.
"""

import subprocess
import time

from _stage import die_with_parent, ready


def run_tool(args):
    proc = subprocess.Popen(args, preexec_fn=die_with_parent)
    while proc.poll() is None:
        time.sleep(0.1)
    return proc.returncode


ready()
run_tool(["sleep", "100000"])
