"""DIAGNOSIS leak.threads: 1,500 threads wait for a gate that nobody opens."""

import threading

from _stage import ready

threading.stack_size(128 * 1024)
gate = threading.Event()


def visitor() -> None:
    gate.wait()


for number in range(1500):
    threading.Thread(target=visitor, name=f"visitor-{number}", daemon=True).start()
ready()
gate.wait()
