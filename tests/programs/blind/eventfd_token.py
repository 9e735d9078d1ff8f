"""DIAGNOSIS blocked.ipc|wait.no_waker: os.eventfd_read() on a token nobody will add (the eventfd is
only in this process).
"""

import os

from _stage import ready


class TokenBucket:
    def __init__(self, n):
        self.fd = os.eventfd(n, os.EFD_SEMAPHORE | os.EFD_CLOEXEC)

    def take(self):
        return os.eventfd_read(self.fd)


bucket = TokenBucket(3)


def call_api(n):
    bucket.take()  # never gives back


def main():
    for n in range(10):
        if n == 3:
            ready()
        call_api(n)


main()
