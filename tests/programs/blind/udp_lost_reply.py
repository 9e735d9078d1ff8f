"""DIAGNOSIS blocked.external: a UDP request (SNMP-like) whose answer was lost; recv() without a
timeout.
"""

import socket
import subprocess

from _role import play, role
from _stage import ready

if role() == "agent":
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    while True:
        s.recv(1000)
p = play("agent", stdout=subprocess.PIPE, text=True)
port = int(p.stdout.readline())


def get(oid):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(("127.0.0.1", port))
    s.send(b"get " + oid)
    return s.recv(1500)


ready()
get(b"1.3.6.1.2.1.1.3.0")
