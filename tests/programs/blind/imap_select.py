"""DIAGNOSIS blocked.external: imaplib logged in; SELECT is never answered (readline on the socket's
buffered file).
"""

import imaplib
import socket
import subprocess
import time

from _role import play, role
from _stage import ready

if role() == "imap":
    s = socket.create_server(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    c, _ = s.accept()
    f = c.makefile("rwb")
    f.write(b"* OK [CAPABILITY IMAP4rev1] hi\r\n")
    f.flush()
    while line := f.readline():
        tag, cmd = line.split()[:2]
        if cmd.upper() == b"SELECT":
            time.sleep(1e6)
        if cmd.upper() == b"CAPABILITY":
            f.write(b"* CAPABILITY IMAP4rev1\r\n")
        f.write(tag + b" OK done\r\n")
        f.flush()
p = play("imap", stdout=subprocess.PIPE, text=True)
port = int(p.stdout.readline())
m = imaplib.IMAP4("127.0.0.1", port)
m.login("u", "p")
ready()
m.select("INBOX")
