"""DIAGNOSIS blocked.child_process: writes a big input to `cat` and would read the output only
afterwards: both pipes are full.
"""

import subprocess

from _stage import die_with_parent, ready

p = subprocess.Popen(
    ["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=die_with_parent
)


def convert(data):
    p.stdin.write(data)
    p.stdin.close()
    return p.stdout.read()


ready()
convert(b"row;row;row\n" * 200000)
