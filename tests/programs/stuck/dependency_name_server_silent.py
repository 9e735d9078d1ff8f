"""DIAGNOSIS blocked.external: a question went to a name server over UDP, which says nothing."""

import socket

from _stage import ready

silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.1", 0))


def resolve(name: str) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.connect(silent.getsockname())
        labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
        line.send(b"\x12\x34\x01\x00\x00\x01" + bytes(6) + labels + b"\0\0\x01\0\x01")
        ready()
        return line.recvfrom(512)[0]


resolve("warehouse.example.org")
