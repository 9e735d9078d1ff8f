"""DIAGNOSIS none.progressing (control): a healthy batch: parses, asks a (prompt) service over a
socket, computes, stores; the counters move.
"""

import hashlib
import json
import socket
import subprocess
import time

from _role import play, role
from _stage import ready

if role() == "geo":
    s = socket.create_server(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    while True:
        c, _ = s.accept()
        with c, c.makefile("rwb") as f:
            for _line in f:
                time.sleep(0.02)
                f.write(b'{"lat": 48.1}\n')
                f.flush()

p = play("geo", stdout=subprocess.PIPE, text=True)
conn = socket.create_connection(("127.0.0.1", int(p.stdout.readline()))).makefile("rwb")


def parse(i):
    return {"street": f"Road {i}", "zip": i % 10_000}


def ask(addr):
    conn.write(json.dumps(addr).encode() + b"\n")
    conn.flush()
    return json.loads(conn.readline())


def digest(addr):
    h = b""
    for _ in range(3000):
        h = hashlib.md5(h + addr["street"].encode()).digest()
    return h.hex()


out = {}
ready()
i = 0
while True:
    a = parse(i)
    a.update(ask(a))
    out[digest(a)] = i
    time.sleep(0.005)
    i += 1
    if len(out) > 1000:
        out.clear()
