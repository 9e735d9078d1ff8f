"""DIAGNOSIS leak.sockets: a web hook sender keeps its connections to two servers; both servers
closed them: ~160 sockets in CLOSE_WAIT.
"""

import socket
import subprocess
import time

from _role import play, role
from _stage import ready

if role() == "server":
    s = socket.create_server(("127.0.0.1", 0), backlog=256)
    print(s.getsockname()[1], flush=True)
    while True:
        c, _ = s.accept()
        c.recv(4096)
        c.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        c.close()

ports = []
for _ in range(2):
    p = play("server", stdout=subprocess.PIPE, text=True)
    ports.append(int(p.stdout.readline()))
history = []


def notify(port, event):
    sock = socket.create_connection(("127.0.0.1", port))
    sock.sendall(b"POST /hook HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
    head = sock.recv(4096)
    history.append((event, head, sock))


for n in range(160):
    notify(ports[n % 2], n)
ready()
while True:
    time.sleep(0.5)
