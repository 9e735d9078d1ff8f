"""DIAGNOSIS blocked.external: in the middle of COPY FROM STDIN the rows come from a TCP feed that
went silent: the server waits for us, we wait for the feed.
"""

import socket
import subprocess
import time

import psycopg
from _role import play, role
from _stage import postgresql_dsn, ready

if role() == "feed":
    s = socket.create_server(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    c, _ = s.accept()
    c.sendall(b"".join(b"%d;x\n" % i for i in range(50)))
    time.sleep(1e6)

p = play("feed", stdout=subprocess.PIPE, text=True)
feed = socket.create_connection(("127.0.0.1", int(p.stdout.readline()))).makefile("rb")


def rows():
    for n, line in enumerate(feed, 1):
        if n == 50:
            ready()
        ident, text = line.decode().strip().split(";")
        yield int(ident), text


with psycopg.connect(postgresql_dsn()) as conn, conn.cursor() as cur:
    cur.execute("create temp table staging(id int, t text)")
    with cur.copy("copy staging from stdin") as copy:
        for r in rows():
            copy.write_row(r)
