"""DIAGNOSIS leak.sockets: a proxy's upstream pool keeps 120 connections whose server hung up
(CLOSE_WAIT); the proxy goes on serving with a selectors loop.
"""

# ruff: noqa: RUF012

import http.client
import selectors
import socket
import subprocess

from _role import play, role
from _stage import ready

if role() == "upstream":
    s = socket.create_server(("127.0.0.1", 0), backlog=200)
    print(s.getsockname()[1], flush=True)
    while True:
        c, _ = s.accept()
        c.recv(1000)
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        c.shutdown(socket.SHUT_WR)
        c.close()

p = play("upstream", stdout=subprocess.PIPE, text=True)
port = int(p.stdout.readline())


class Upstream:
    idle = []

    def get(self, path):
        conn = http.client.HTTPConnection("127.0.0.1", port)
        conn.request("GET", path)
        body = conn.getresponse().read()
        self.idle.append(conn)  # kept "for reuse", never reused
        return body


up = Upstream()
for n in range(120):
    up.get(f"/{n}")
sel = selectors.DefaultSelector()
srv = socket.create_server(("127.0.0.1", 0))
sel.register(srv, selectors.EVENT_READ)
ready()
while True:
    sel.select(timeout=1.0)
