"""The main thread waits on a TCP connection whose other end, a child process, never answers."""

import os
import signal
import socket
import sys

listener = socket.create_server(("127.0.0.1", 0))
if os.fork() == 0:
    # The parent is killed by the test; the child must not outlive it.
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    if os.getppid() == 1:
        sys.exit()
    connection, _ = listener.accept()
    signal.pause()
client = socket.create_connection(listener.getsockname())
print(f"ready {listener.getsockname()[1]}", flush=True)
client.recv(1)
