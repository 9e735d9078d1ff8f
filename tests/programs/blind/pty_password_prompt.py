"""DIAGNOSIS blocked.child_process|blocked.ipc: an ssh-like session on a pty: the child has printed
'Password:' and waits for input, the parent reads on for a shell prompt.
"""

import os
import pty

from _stage import die_with_parent, ready

pid, fd = pty.fork()
if pid == 0:
    die_with_parent()
    os.execvp("sh", ["sh", "-c", "printf 'Password:'; read x; echo welcome; exec sh"])


def expect(marker):
    seen = b""
    while marker not in seen:
        if b"Password:" in seen:
            ready()
        seen += os.read(fd, 1024)
    return seen


expect(b"$ ")
