"""DIAGNOSIS wait.no_waker|deadlock.in_process: request and reply threads each wait in
SimpleQueue.get() (C code) for the other to speak first.
"""

import queue
import threading
import time

from _stage import ready

ask, answer = queue.SimpleQueue(), queue.SimpleQueue()


def client():
    hello = answer.get()
    ask.put(hello)


def server():
    q = ask.get()
    answer.put(q)


ts = [threading.Thread(target=f, name=f.__name__) for f in (client, server)]
[t.start() for t in ts]
time.sleep(0.2)
ready()
[t.join() for t in ts]
