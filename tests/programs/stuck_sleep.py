"""The main thread sleeps far longer than anybody will wait."""

import time


def nap() -> None:
    print("ready", flush=True)
    time.sleep(100_000)


nap()
