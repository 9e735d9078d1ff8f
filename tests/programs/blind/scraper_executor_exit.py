"""DIAGNOSIS exit.hung_shutdown|blocked.external: main() has returned; the exit hook of
concurrent.futures joins a pool thread that is blocked in recv() for ever.
"""

import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from _role import play, role
from _stage import ready

if role() == "site":
    s = socket.create_server(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    keep = []
    while True:
        keep.append(s.accept())

p = play("site", stdout=subprocess.PIPE, text=True)
port = int(p.stdout.readline())
pool = ThreadPoolExecutor(3, thread_name_prefix="fetch")


def fetch(path):
    with socket.create_connection(("127.0.0.1", port)) as c:
        c.sendall(f"GET {path}\r\n".encode())
        return c.recv(4096)


def main():
    for path in ("/a", "/b"):
        pool.submit(fetch, path)
    time.sleep(0.4)
    ready()


main()
