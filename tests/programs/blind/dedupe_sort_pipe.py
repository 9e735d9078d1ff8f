"""DIAGNOSIS blocked.child_process: reads the output of sort(1) without having closed sort's stdin;
sort waits for more input, we wait for its output.
"""

import subprocess

from _stage import die_with_parent, ready


def dedupe(words):
    sort = subprocess.Popen(
        ["sort", "-u"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,
    )
    for w in words:
        sort.stdin.write(w + "\n")
    sort.stdin.flush()
    ready()
    return sort.stdout.read().splitlines()


print(dedupe(["b", "a", "b"]))
