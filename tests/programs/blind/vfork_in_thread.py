"""DIAGNOSIS uninterruptible: a spawner thread is in state D: its vfork() child never reached exec;
main waits to join it, a bystander ticks.
"""

import threading
import time

from _stage import native_without_gil, ready

native = native_without_gil()


def spawn():
    native.vfork_and_wait()


def tick():
    while True:
        time.sleep(0.5)


threading.Thread(target=tick, daemon=True).start()
t = threading.Thread(target=spawn, name="spawner")
t.start()
time.sleep(0.2)
ready()
t.join()
