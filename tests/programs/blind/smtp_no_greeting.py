"""DIAGNOSIS blocked.external: smtplib waits for the 220 greeting of a mail server that accepted and
is silent.
"""

import smtplib
import socket
import subprocess

from _role import play, role
from _stage import ready

if role() == "mx":
    s = socket.create_server(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    kept = []
    while True:
        kept.append(s.accept())
p = play("mx", stdout=subprocess.PIPE, text=True)
port = int(p.stdout.readline())


def send(msg):
    with smtplib.SMTP("127.0.0.1", port) as m:
        m.sendmail("a@x", ["b@x"], msg)


ready()
send("hello")
