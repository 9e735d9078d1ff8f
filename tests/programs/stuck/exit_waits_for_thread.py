"""DIAGNOSIS exit.hung_shutdown: the program is done, one thread of it that is no daemon is not."""

import queue
import threading

from _stage import ready

outbox: "queue.Queue[str]" = queue.Queue()


def send_all() -> None:
    while True:
        print(outbox.get())
        outbox.task_done()


threading.Thread(target=send_all, name="sender").start()
outbox.put("the last letter")
outbox.join()
ready()
