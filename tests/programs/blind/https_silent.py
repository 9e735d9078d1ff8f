"""DIAGNOSIS blocked.external: http.client over an established TLS connection; the server read the
request and never answers.
"""

import http.client
import os
import socket
import ssl
import subprocess
import tempfile
import time

from _role import play, role
from _stage import ready

if role() == "server":
    d = tempfile.mkdtemp()
    k, c = d + "/k", d + "/c"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            k,
            "-out",
            c,
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
        ],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ctx.load_cert_chain(c, k)
    for f in (k, c):
        os.unlink(f)
    os.rmdir(d)
    s = socket.create_server(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    with ctx.wrap_socket(s.accept()[0], server_side=True) as t:
        t.recv(5000)
        time.sleep(1e6)
p = play("server", stdout=subprocess.PIPE, text=True)
port = int(p.stdout.readline())
ctx = ssl._create_unverified_context()
h = http.client.HTTPSConnection("localhost", port, context=ctx)
h.connect()
ready()
h.request("GET", "/v1/charges")
h.getresponse()
