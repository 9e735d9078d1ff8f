"""DIAGNOSIS blocked.external: a request was sent over TCP, the peer is there but does not reply."""

import socket

from _stage import ready


class Gateway:
    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.line = socket.create_connection(self.listener.getsockname())
        self.peer, _ = self.listener.accept()

    def book(self, seat: str) -> bytes:
        self.line.sendall(f"BOOK {seat}\n".encode())
        ready()
        return self.line.recv(1024)


Gateway().book("12F")
