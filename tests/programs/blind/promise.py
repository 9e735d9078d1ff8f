"""DIAGNOSIS wait.no_waker: result() of a concurrent.futures.Future that nobody will ever complete
(the reply handler was never registered).
"""

import concurrent.futures
import itertools

from _stage import ready


class Rpc:
    def __init__(self):
        self.pending = {}
        self.ids = itertools.count()

    def call(self, method):
        f = concurrent.futures.Future()
        self.pending[next(self.ids)] = (method, f)
        return f


rpc = Rpc()
ready()
print(rpc.call("balance").result())
