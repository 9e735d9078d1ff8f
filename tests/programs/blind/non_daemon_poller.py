"""DIAGNOSIS exit.hung_shutdown|blocked.external: main returned; the interpreter waits in
threading._shutdown for a non-daemon thread in recv() on a silent subscription.
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
    time.sleep(1e6)
p = play("server", stdout=subprocess.PIPE, text=True)
port = int(p.stdout.readline())


def subscription():
    with socket.create_connection(("127.0.0.1", port)) as c:
        c.sendall(b"SUB prices")
        c.recv(1000)


threading.Thread(target=subscription, name="subscription").start()
time.sleep(0.3)
ready()
