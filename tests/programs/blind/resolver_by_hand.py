"""DIAGNOSIS blocked.external: a hand-written DNS query over UDP, select() without a timeout for the
answer, in a worker thread; main waits in queue.get().
"""

import queue
import select
import socket
import struct
import subprocess
import threading
import time

from _role import play, role
from _stage import ready

if role() == "dns":
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    while True:
        s.recv(512)
p = play("dns", stdout=subprocess.PIPE, text=True)
port = int(p.stdout.readline())
found = queue.Queue()


def resolve(name):
    q = (
        struct.pack(">6H", 7, 0x100, 1, 0, 0, 0)
        + b"".join(bytes([len(x)]) + x.encode() for x in name.split("."))
        + b"\0\0\1\0\1"
    )
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(("127.0.0.1", port))
    s.send(q)
    select.select([s], [], [])
    found.put(s.recv(512))


threading.Thread(target=resolve, args=("db.internal",), name="resolver").start()
time.sleep(0.2)
ready()
found.get()
