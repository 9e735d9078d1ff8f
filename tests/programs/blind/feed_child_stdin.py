"""DIAGNOSIS blocked.child_process: Popen.stdin.write() to a child that does not read its stdin (it
sleeps); the pipe is full.
"""

import subprocess
import threading

from _stage import die_with_parent, ready


class Indexer:
    def __init__(self):
        self.proc = subprocess.Popen(
            ["sleep", "100000"], stdin=subprocess.PIPE, preexec_fn=die_with_parent
        )

    def add(self, doc):
        self.proc.stdin.write(doc)
        self.proc.stdin.flush()


ix = Indexer()
threading.Timer(0.5, ready).start()
for n in range(10_000):
    ix.add(b"doc %d " % n + b"w" * 500 + b"\n")
