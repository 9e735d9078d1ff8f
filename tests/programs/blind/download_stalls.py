"""DIAGNOSIS blocked.external: http.client read() of a body that stops half way: the server (other
process) keeps the connection and sends nothing more.
"""

import http.client
import socket
import subprocess
import time

from _role import play, role
from _stage import ready

if role() == "cdn":
    s = socket.create_server(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    c, _ = s.accept()
    c.recv(4096)
    c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + bytes(300_000))
    time.sleep(1e6)

p = play("cdn", stdout=subprocess.PIPE, text=True)


def download(port, path):
    conn = http.client.HTTPConnection("127.0.0.1", port)
    conn.request("GET", path)
    r, got = conn.getresponse(), 0
    while chunk := r.read(50_000):
        got += len(chunk)
        if got == 300_000:
            ready()
    return got


download(int(p.stdout.readline()), "/image.iso")
