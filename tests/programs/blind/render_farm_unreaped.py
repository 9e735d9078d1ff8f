"""DIAGNOSIS zombie.process: READY is a render process that ended normally (code 0) while its farm
master, busy accepting, never calls poll() or wait().
"""

import os
import socket
import subprocess
import sys

from _role import role
from _stage import die_with_parent, ready

if role() == "render":
    frames = [bytes(1000) for _ in range(10)]
    ready()
    sys.exit(0)

srv = socket.create_server(("127.0.0.1", 0))
job = subprocess.Popen(
    [sys.executable, os.path.abspath(__file__)],
    env=dict(os.environ, STUCK_ROLE="render"),
    preexec_fn=die_with_parent,
)
srv.accept()
