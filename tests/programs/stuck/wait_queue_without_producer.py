"""DIAGNOSIS wait.no_waker: the thread that filled a queue has ended, who empties it waits on."""

import queue
import threading

from _stage import ready

rows: "queue.Queue[int]" = queue.Queue()


def produce() -> None:
    for row in range(3):
        rows.put(row)


def consume() -> None:
    while True:
        rows.get()


producer = threading.Thread(target=produce, name="producer")
producer.start()
producer.join()
ready()
consume()
