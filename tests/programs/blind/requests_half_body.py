"""DIAGNOSIS blocked.external: requests.get() (timeout=None): headers and half of the body came,
then silence.
"""

import socket
import subprocess
import time

from _role import play, role
from _stage import cannot, ready

try:
    import requests
except ImportError:
    cannot("requests is not installed")

if role() == "server":
    s = socket.create_server(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    c, _ = s.accept()
    c.recv(5000)
    c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 50000)
    time.sleep(1e6)
p = play("server", stdout=subprocess.PIPE, text=True)
port = int(p.stdout.readline())


def download(url):
    with requests.get(url, stream=True) as r:
        return sum(len(b) for b in r.iter_content(4096))


ready()
download(f"http://127.0.0.1:{port}/export.csv")
