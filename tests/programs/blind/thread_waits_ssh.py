"""DIAGNOSIS blocked.child_process: a worker thread in Popen.wait() for a `tail -f` that never ends;
main joins it; a monitor thread ticks.
"""

import subprocess
import threading
import time

from _stage import die_with_parent, ready

p = subprocess.Popen(
    ["tail", "-f", "/dev/null"], preexec_fn=die_with_parent, stdin=subprocess.DEVNULL
)


def monitor():
    while True:
        time.sleep(0.5)


def deploy():
    return p.wait()


threading.Thread(target=monitor, daemon=True, name="monitor").start()
t = threading.Thread(target=deploy, name="deploy")
t.start()
time.sleep(0.2)
ready()
t.join()
