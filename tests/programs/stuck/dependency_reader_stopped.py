"""DIAGNOSIS blocked.external: more is sent than the peer takes in, because it does not read."""

import socket

from _stage import ready

listener = socket.create_server(("127.0.0.1", 0))
upload = socket.create_connection(listener.getsockname())
idle_peer, _ = listener.accept()
upload.sendall(b"PUT /archive\r\n")
ready()
while True:
    upload.sendall(bytes(1 << 20))
