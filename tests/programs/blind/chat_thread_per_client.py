"""DIAGNOSIS leak.threads: a thread per client that waits in recv() on a connection which is never
closed: 650 threads; the accept loop lives.
"""

import resource
import socket
import threading

from _stage import ready

threading.stack_size(64 * 1024)

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16384), hard))
clients = []


def serve(sock):
    while data := sock.recv(100):
        sock.sendall(data)


for _n in range(650):
    a, b = socket.socketpair()
    clients.append(a)
    threading.Thread(target=serve, args=(b,), daemon=True).start()
srv = socket.create_server(("127.0.0.1", 0))
srv.settimeout(1.0)
ready()
while True:
    try:
        srv.accept()
    except TimeoutError:
        pass
