"""DIAGNOSIS blocked.child_process|blocked.ipc: subprocess.run(capture_output=True): the shell has
ended, but the background process it started still holds the output pipe.
"""

import subprocess
import threading

from _stage import die_with_parent, ready


def start_agent():
    # the grandchild must die with us: it looks whether we live
    import os

    me = os.getpid()
    return subprocess.run(
        ["sh", "-c", f"(while kill -0 {me} 2>/dev/null; do sleep 0.5; done) & echo started"],
        capture_output=True,
        text=True,
        preexec_fn=die_with_parent,
    )


threading.Timer(0.5, ready).start()
print(start_agent().stdout)
