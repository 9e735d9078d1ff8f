"""DIAGNOSIS busy.livelock|busy.python: two diners hand the only spoon to each other because each
sees the other hungry; locks are taken and given, nobody eats.
"""

import threading
import time

from _stage import ready


class Spoon:
    def __init__(self, owner):
        self.lock = threading.Lock()
        self.owner = owner


class Diner:
    def __init__(self, name):
        self.name, self.hungry = name, True

    def eat_with(self, spoon, spouse):
        while self.hungry:
            with spoon.lock:
                if spoon.owner is self:
                    if spouse.hungry:
                        spoon.owner = spouse
                    else:
                        self.hungry = False
            time.sleep(0)


a, b = Diner("alice"), Diner("bob")
spoon = Spoon(a)
ts = [
    threading.Thread(target=x.eat_with, args=(spoon, y), name=x.name) for x, y in ((a, b), (b, a))
]
[t.start() for t in ts]
time.sleep(0.3)
ready()
[t.join() for t in ts]
