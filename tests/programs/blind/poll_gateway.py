"""DIAGNOSIS blocked.external: poll() without a timeout on one TCP connection, in a thread; another
thread logs statistics each second.
"""

import select
import socket
import subprocess
import threading
import time

from _role import play, role
from _stage import ready

if role() == "gw":
    s = socket.create_server(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    c, _ = s.accept()
    c.recv(100)
    time.sleep(1e6)
p = play("gw", stdout=subprocess.PIPE, text=True)
port = int(p.stdout.readline())
stats = {"ticks": 0}


def ticker():
    while True:
        time.sleep(1)
        stats["ticks"] += 1


def session():
    c = socket.create_connection(("127.0.0.1", port))
    c.sendall(b"LOGON")
    po = select.poll()
    po.register(c, select.POLLIN)
    po.poll()
    c.recv(10)


threading.Thread(target=ticker, daemon=True, name="ticker").start()
t = threading.Thread(target=session, name="fix-session")
t.start()
time.sleep(0.2)
ready()
t.join()
