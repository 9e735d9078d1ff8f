"""DIAGNOSIS blocked.external|blocked.ipc: connect() to a unix-domain socket whose server never
accepts and whose backlog is full.
"""

import os
import socket
import subprocess
import tempfile
import time

from _role import play, role
from _stage import ready

path = os.path.join(tempfile.gettempdir(), f"unix_{os.getppid() if role() else os.getpid()}.sock")
if role() == "server":
    s = socket.socket(socket.AF_UNIX)
    s.bind(path)
    s.listen(1)
    print("up", flush=True)
    time.sleep(2)
    os.unlink(path)
    time.sleep(1e6)
p = play("server", stdout=subprocess.PIPE, text=True)
p.stdout.readline()
held = []


def open_session():
    c = socket.socket(socket.AF_UNIX)
    c.connect(path)
    held.append(c)


for i in range(9):
    if i == 2:
        ready()
    open_session()
