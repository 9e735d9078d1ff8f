"""DIAGNOSIS blocked.external: TLS handshake with a server that accepts TCP and never says hello;
four pool threads, main in result().
"""

import socket
import ssl
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from _role import play, role
from _stage import ready

if role() == "server":
    s = socket.create_server(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    kept = []
    while True:
        kept.append(s.accept())
p = play("server", stdout=subprocess.PIPE, text=True)
port = int(p.stdout.readline())


def check(name):
    ctx = ssl.create_default_context()
    ctx.check_hostname = False
    ctx.verify_mode = ssl.CERT_NONE
    with ctx.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname=name) as s:
        return s.version()


with ThreadPoolExecutor(4) as pool:
    fs = [pool.submit(check, f"host{i}") for i in range(4)]
    time.sleep(0.3)
    ready()
    [f.result() for f in fs]
