"""DIAGNOSIS none.progressing (control): a slow but moving download: the server (other process)
sends a kilobyte every 60 ms; the client hashes it.
"""

import hashlib
import socket
import subprocess
import time

from _role import play, role
from _stage import ready

if role() == "mirror":
    s = socket.create_server(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    c, _ = s.accept()
    while True:
        c.sendall(bytes(1024))
        time.sleep(0.06)

p = play("mirror", stdout=subprocess.PIPE, text=True)


def download(port):
    h, got = hashlib.sha256(), 0
    with socket.create_connection(("127.0.0.1", port)) as c:
        ready()
        while data := c.recv(4096):
            h.update(data)
            got += len(data)
    return h.hexdigest(), got


download(int(p.stdout.readline()))
