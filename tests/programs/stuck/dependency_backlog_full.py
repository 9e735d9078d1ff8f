"""DIAGNOSIS blocked.external: a connection is opened to a server that takes in no more."""

import contextlib
import socket
import time

from _stage import ready

server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(0)
address = server.getsockname()

queue = []
for _ in range(5):
    caller = socket.socket()
    caller.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        caller.connect(address)
    queue.append(caller)
time.sleep(0.2)


def open_line() -> socket.socket:
    ready()
    line = socket.socket()
    line.connect(address)
    return line


open_line()
