"""DIAGNOSIS none.idle: healthy; a worker without work looks into its queue every half second."""

import queue
import threading

from _stage import ready

work: "queue.SimpleQueue[str]" = queue.SimpleQueue()


def worker() -> None:
    while True:
        try:
            print(work.get(timeout=0.5))
        except queue.Empty:
            pass


threads = [threading.Thread(target=worker, name=f"worker-{number}") for number in range(2)]
for thread in threads:
    thread.start()
ready()
for thread in threads:
    thread.join()
