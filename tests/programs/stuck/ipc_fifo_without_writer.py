"""DIAGNOSIS blocked.ipc: a named pipe is opened to read, and nobody opens it to write."""

import os

from _stage import ready, temporary

inbox = temporary("inbox")
os.mkfifo(inbox)
ready()
print(inbox.read_text())
