"""DIAGNOSIS blocked.external: a reply is awaited 40,000 calls deep; stacks have to be cut."""

import socket
import sys

from _stage import ready

sys.setrecursionlimit(100_000)
asking, silent = socket.socketpair()


def walk(node: int) -> bytes:
    if node == 0:
        ready()
        return asking.recv(16)
    return walk(node - 1)


walk(40_000)
