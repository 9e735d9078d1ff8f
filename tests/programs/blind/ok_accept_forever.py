"""DIAGNOSIS none.idle (control): accept() without a timeout; a listening server, no client."""

import socket

from _stage import ready

s = socket.create_server(("127.0.0.1", 0))
ready()
while True:
    c, a = s.accept()
    c.sendall(b"hi\n")
    c.close()
