"""DIAGNOSIS wait.no_waker: Future.result() of a call whose reply was dropped because the dispatcher
thread ended; nobody will complete it.
"""

import itertools
import queue
import threading
from concurrent.futures import Future

from _stage import ready


class Client:
    def __init__(self):
        self.ids = itertools.count()
        self.pending = {}
        self.wire = queue.Queue()
        threading.Thread(target=self.dispatch, name="dispatch", daemon=True).start()

    def dispatch(self):
        while True:
            ident, method = self.wire.get()
            if method == "quit":
                return
            self.pending.pop(ident).set_result(method.upper())

    def call(self, method):
        ident, fut = next(self.ids), Future()
        self.pending[ident] = fut
        self.wire.put((ident, method))
        return fut.result()


c = Client()
c.call("ping")
threading.Timer(0.4, ready).start()
c.call("quit")
