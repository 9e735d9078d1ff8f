"""DIAGNOSIS blocked.external|none.idle: ftplib in active mode: the client sits in accept() for the
data connection that the server never opens (firewall).
"""

import ftplib
import socket
import subprocess

from _role import play, role
from _stage import ready

if role() == "ftp":
    s = socket.create_server(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    c, _ = s.accept()
    f = c.makefile("rwb")
    f.write(b"220 hi\r\n")
    f.flush()
    for line in f:
        cmd = line.split()[0].upper()
        f.write({b"USER": b"230 in", b"RETR": b"150 opening"}.get(cmd, b"200 ok") + b"\r\n")
        f.flush()
p = play("ftp", stdout=subprocess.PIPE, text=True)
port = int(p.stdout.readline())
f = ftplib.FTP()
f.connect("127.0.0.1", port)
f.login()
f.set_pasv(False)
ready()
f.retrbinary("RETR prices.csv", lambda b: None)
