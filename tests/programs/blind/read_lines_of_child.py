"""DIAGNOSIS blocked.child_process: iterates over the stdout of a child (`sh`) that stopped talking
after the first lines.
"""

import subprocess

from _stage import die_with_parent, ready

p = subprocess.Popen(
    ["sh", "-c", "echo 10%; echo 20%; exec sleep 1000000"],
    stdout=subprocess.PIPE,
    text=True,
    preexec_fn=die_with_parent,
    stdin=subprocess.DEVNULL,
)


def follow():
    for line in p.stdout:
        print(line, end="", flush=True)


ready()
follow()
