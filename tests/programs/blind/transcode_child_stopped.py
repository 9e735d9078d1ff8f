"""DIAGNOSIS blocked.child_process: subprocess.run() waits for a child that was stopped (SIGSTOP);
its state is T, nobody continues it.
"""

import subprocess
import threading
import time

from _stage import die_with_parent, ready


def transcode(clip):
    return subprocess.run(
        ["sh", "-c", "kill -STOP $$; echo done"], capture_output=True, preexec_fn=die_with_parent
    )


def tell():
    time.sleep(0.4)
    ready()


threading.Thread(target=tell, daemon=True).start()
transcode("intro.mov")
