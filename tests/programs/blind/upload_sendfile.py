"""DIAGNOSIS blocked.external: uploading a file with socket.sendfile() to a peer that stopped
reading (send queue full, zero window).
"""

# ruff: noqa: SIM115

import socket
import subprocess
import tempfile
import time

from _role import play, role
from _stage import ready

if role() == "server":
    s = socket.create_server(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    c, _ = s.accept()
    c.recv(10)
    time.sleep(1e6)
p = play("server", stdout=subprocess.PIPE, text=True)
port = int(p.stdout.readline())
f = tempfile.TemporaryFile()
f.truncate(200 << 20)
c = socket.create_connection(("127.0.0.1", port))
ready()
c.sendfile(f)
