"""DIAGNOSIS blocked.external: smtplib.SMTP() connected and waits for the 220 banner which the
server never sends (no timeout).
"""

import smtplib
import socket
import subprocess

from _role import play, role
from _stage import ready

if role() == "tarpit":
    s = socket.create_server(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    conns = []
    while True:
        conns.append(s.accept())

p = play("tarpit", stdout=subprocess.PIPE, text=True)
port = int(p.stdout.readline())


def send_newsletter(to):
    ready()
    with smtplib.SMTP("127.0.0.1", port) as smtp:
        smtp.sendmail("a@example.org", to, "Subject: hi\n\nhello")


send_newsletter("b@example.org")
