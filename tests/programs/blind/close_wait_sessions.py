"""DIAGNOSIS leak.sockets: one requests.Session per call, streamed responses kept in a list: 300
connections in CLOSE_WAIT to one upstream; the loop goes on slowly.
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
    s = socket.create_server(("127.0.0.1", 0), backlog=512)
    print(s.getsockname()[1], flush=True)
    while True:
        c, _ = s.accept()
        c.recv(2000)
        c.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 10\r\n\r\n12345")
        c.close()
p = play("server", stdout=subprocess.PIPE, text=True)
url = f"http://127.0.0.1:{int(p.stdout.readline())}/"
audit = []


def check():
    s = requests.Session()
    s.trust_env = False
    audit.append(s.get(url, stream=True))


for _ in range(300):
    check()
ready()
while True:
    time.sleep(2)
    check()
