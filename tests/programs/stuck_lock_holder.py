"""The main thread waits for a lock whose holder sleeps."""

import threading
import time

LOCK = threading.Lock()
HELD = threading.Event()


def hold() -> None:
    with LOCK:
        HELD.set()
        time.sleep(100_000)


def pay() -> None:
    with LOCK:
        pass


threading.Thread(target=hold, name="holder", daemon=True).start()
HELD.wait()
print("ready", flush=True)
pay()
