"""DIAGNOSIS blocked.external: a client multiplexes three upstream connections with epoll, timeout
None; none of them answers.
"""

import selectors
import socket
import subprocess

from _role import play, role
from _stage import ready

if role() == "server":
    s = socket.create_server(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    kept = []
    while True:
        c, _ = s.accept()
        c.recv(100)
        kept.append(c)
p = play("server", stdout=subprocess.PIPE, text=True)
port = int(p.stdout.readline())
sel = selectors.DefaultSelector()
answers = []
for shard in range(3):
    c = socket.create_connection(("127.0.0.1", port))
    c.sendall(b"query %d" % shard)
    sel.register(c, selectors.EVENT_READ)
ready()
while len(answers) < 3:
    for key, _ in sel.select(None):
        answers.append(key.fileobj.recv(4096))
        sel.unregister(key.fileobj)
