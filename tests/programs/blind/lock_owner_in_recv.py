"""DIAGNOSIS blocked.external: eight threads wait for a lock whose owner is in recv() on a silent
peer: the root cause is the peer, not the lock.
"""

import socket
import subprocess
import threading
import time

from _role import play, role
from _stage import ready

if role() == "server":
    s = socket.create_server(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    c, _ = s.accept()
    c.recv(100)
    time.sleep(1e6)
p = play("server", stdout=subprocess.PIPE, text=True)


class Client:
    def __init__(self, port):
        self.lock = threading.RLock()
        self.s = socket.create_connection(("127.0.0.1", port))

    def call(self, msg):
        with self.lock:
            self.s.sendall(msg)
            return self.s.recv(1000)


cl = Client(int(p.stdout.readline()))
ts = [threading.Thread(target=cl.call, args=(b"hi",), name=f"req-{i}") for i in range(9)]
[t.start() for t in ts]
time.sleep(0.3)
ready()
[t.join() for t in ts]
