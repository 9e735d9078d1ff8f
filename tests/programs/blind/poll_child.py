"""DIAGNOSIS blocked.polling|blocked.child_process: while p.poll() is None: sleep(0.2); the child
(`sleep`) never ends.
"""

import subprocess
import time

from _stage import die_with_parent, ready

p = subprocess.Popen(["sleep", "1000000"], preexec_fn=die_with_parent, stdin=subprocess.DEVNULL)


def supervise():
    while p.poll() is None:
        time.sleep(0.2)


ready()
supervise()
