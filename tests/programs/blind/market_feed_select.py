"""DIAGNOSIS blocked.external|none.idle: selectors loop without a timeout over two feeds whose
servers are silent.
"""

import selectors
import socket
import subprocess

from _role import play, role
from _stage import ready

if role() == "exchange":
    s = socket.create_server(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    keep = []
    while True:
        c, _ = s.accept()
        c.sendall(b"HELLO\n")
        keep.append(c)

sel = selectors.DefaultSelector()
for n in range(2):
    p = play("exchange", stdout=subprocess.PIPE, text=True)
    sock = socket.create_connection(("127.0.0.1", int(p.stdout.readline())))
    sock.setblocking(False)
    sel.register(sock, selectors.EVENT_READ, f"feed-{n}")
book, hello = {}, 0
while len(book) < 1000:
    if hello == 2:
        hello = 3
        ready()
    for key, _ in sel.select():
        data = key.fileobj.recv(100)
        if data == b"HELLO\n":
            hello += 1
        else:
            book[data] = key.data
