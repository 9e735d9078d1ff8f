"""DIAGNOSIS leak.zombies: a pre-fork server forks a child per job and never waits; 40 zombies, the
accept loop goes on.
"""

import os
import socket

from _stage import ready

srv = socket.create_server(("127.0.0.1", 0))
srv.settimeout(0.5)
for job in range(40):
    if os.fork() == 0:
        os._exit(job % 3)
ready()
while True:
    try:
        c, _ = srv.accept()
        c.close()
    except TimeoutError:
        pass
