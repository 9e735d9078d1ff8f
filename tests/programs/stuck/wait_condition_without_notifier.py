"""DIAGNOSIS wait.no_waker: a condition is waited for that no thread is left to notify."""

import threading

from _stage import ready


class Mailbox:
    def __init__(self) -> None:
        self.letters: list[str] = []
        self.arrived = threading.Condition()

    def take(self) -> str:
        with self.arrived:
            while not self.letters:
                self.arrived.wait()
            return self.letters.pop()


mailbox = Mailbox()
ready()
mailbox.take()
