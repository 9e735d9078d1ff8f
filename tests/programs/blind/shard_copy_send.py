"""DIAGNOSIS blocked.external: a thread sends a shard with sendall() over a Unix socket to another
process that accepted and does not read; main joins it.
"""

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

from _role import play, role
from _stage import ready

if role() == "receiver":
    s = socket.socket(socket.AF_UNIX)
    s.bind(sys.argv[2])
    s.listen()
    print("up", flush=True)
    c, _ = s.accept()
    time.sleep(1e6)

path = os.path.join(tempfile.mkdtemp(prefix="files_"), "shard.sock")
p = play("receiver", path, stdout=subprocess.PIPE, text=True)
p.stdout.readline()


def copy_shard(n):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    for _block in range(1000):
        s.sendall(bytes(1 << 16))


t = threading.Thread(target=copy_shard, args=(7,), name="shard-7")
t.start()
time.sleep(0.3)
ready()
t.join()
