"""DIAGNOSIS leak.zombies: a fork server that never waits for its finished children (35 defunct), in
select() with a timeout.
"""

import os
import select
import socket

from _stage import ready

s = socket.create_server(("127.0.0.1", 0))


def serve(n):
    if os.fork() == 0:
        os._exit(n % 2)


for n in range(35):
    serve(n)
ready()
while True:
    select.select([s], [], [], 1.0)
