"""DIAGNOSIS blocked.external: the TLS handshake with a peer that accepts TCP and says nothing; ssl
wrap_socket without timeout.
"""

import socket
import ssl
import subprocess

from _role import play, role
from _stage import ready

if role() == "peer":
    s = socket.create_server(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    keep = []
    while True:
        keep.append(s.accept())

p = play("peer", stdout=subprocess.PIPE, text=True)
port = int(p.stdout.readline())


class PartnerApi:
    def __init__(self):
        self.ctx = ssl.create_default_context()
        self.ctx.check_hostname = False
        self.ctx.verify_mode = ssl.CERT_NONE

    def quote(self, isin):
        raw = socket.create_connection(("127.0.0.1", port))
        ready()
        tls = self.ctx.wrap_socket(raw)
        tls.sendall(isin.encode())
        return tls.recv(100)


PartnerApi().quote("DE0001")
