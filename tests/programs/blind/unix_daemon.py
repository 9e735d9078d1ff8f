"""DIAGNOSIS blocked.external: recv() from a daemon behind a unix-domain socket (docker-like) that
took the request and is silent.
"""

import os
import socket
import subprocess
import tempfile
import time

from _role import play, role
from _stage import ready

path = os.path.join(tempfile.gettempdir(), f"unix_{os.getppid() if role() else os.getpid()}.sock")
if role() == "daemon":
    s = socket.socket(socket.AF_UNIX)
    s.bind(path)
    s.listen()
    print("up", flush=True)
    c, _ = s.accept()
    os.unlink(path)
    c.recv(1000)
    time.sleep(1e6)
p = play("daemon", stdout=subprocess.PIPE, text=True)
p.stdout.readline()
c = socket.socket(socket.AF_UNIX)
c.connect(path)
c.sendall(b"POST /containers/1/wait HTTP/1.1\r\nHost: d\r\n\r\n")
ready()
c.recv(4096)
