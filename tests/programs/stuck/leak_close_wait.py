"""DIAGNOSIS leak.sockets: the server has closed 150 connections, the client none of them."""

import socket
import time
from collections.abc import Callable

from _stage import beside, ready


def serve(tell: Callable[[str], None]) -> None:
    server = socket.create_server(("127.0.0.1", 0), backlog=200)
    tell(str(server.getsockname()[1]))
    while True:
        line, _ = server.accept()
        with line:
            line.recv(64)
            line.sendall(b"+OK\r\n")


port = int(beside(serve))
lines = []


def ping() -> bytes:
    line = socket.create_connection(("127.0.0.1", port))
    lines.append(line)
    line.sendall(b"PING\r\n")
    return line.recv(64)


for _ in range(150):
    ping()
ready()
while True:
    time.sleep(2)
