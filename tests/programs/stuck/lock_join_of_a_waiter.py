"""DIAGNOSIS deadlock.in_process: a thread is joined that wants the lock of who joins it."""

import threading

from _stage import ready

settings = threading.Lock()


def reload() -> None:
    with settings:
        print("reloaded")


def stop(thread: threading.Thread) -> None:
    with settings:
        thread.start()
        ready()
        thread.join()


stop(threading.Thread(target=reload, name="reload"))
