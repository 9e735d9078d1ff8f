"""DIAGNOSIS blocked.child_process: a child is waited for that somebody has stopped by SIGSTOP."""

import signal
import subprocess
import sys

from _stage import die_with_parent, ready

child = subprocess.Popen(
    [sys.executable, "-c", "import time\nwhile True: time.sleep(0.01)"],
    preexec_fn=die_with_parent,
    stdout=subprocess.PIPE,
)
child.send_signal(signal.SIGSTOP)
ready()
child.communicate()
