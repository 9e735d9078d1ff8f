"""DIAGNOSIS wait.no_waker|deadlock.in_process: client and server threads each wait for the Event
which the other would set afterwards.
"""

import threading
import time

from _stage import ready


class Channel:
    def __init__(self):
        self.client_hello = threading.Event()
        self.server_hello = threading.Event()

    def server(self):
        self.client_hello.wait()
        self.server_hello.set()

    def client(self):
        self.server_hello.wait()
        self.client_hello.set()


ch = Channel()
ts = [threading.Thread(target=f, name=f.__name__) for f in (ch.server, ch.client)]
[t.start() for t in ts]
time.sleep(0.2)
ready()
[t.join() for t in ts]
