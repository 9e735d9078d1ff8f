"""DIAGNOSIS leak.sockets: a server keeps accepted sockets after its clients hung up: hundreds in
CLOSE_WAIT; it still accepts new ones.
"""

import socket
import subprocess
import sys
import threading
import time

from _role import play, role
from _stage import ready

if role() == "client":
    for _ in range(250):
        c = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
        c.sendall(b"x")
        c.recv(1)
        c.close()
    print("done", flush=True)
    while True:
        time.sleep(1)
        c = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
        c.sendall(b"x")
        c.recv(1)
        c.close()
srv = socket.create_server(("127.0.0.1", 0), backlog=100)
sessions = {}


def serve():
    while True:
        c, a = srv.accept()
        c.recv(1)
        c.sendall(b"y")
        sessions[a] = c


t = threading.Thread(target=serve, name="acceptor")
t.start()
p = play("client", str(srv.getsockname()[1]), stdout=subprocess.PIPE, text=True)
p.stdout.readline()
ready()
t.join()
