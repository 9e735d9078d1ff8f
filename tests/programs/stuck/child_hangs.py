"""DIAGNOSIS blocked.child_process: a script is waited for whose own child sleeps for days."""

import subprocess

from _stage import die_with_parent, ready

SCRIPT = "sleep 300000; echo done"


def convert() -> None:
    ready()
    subprocess.run(["sh", "-c", SCRIPT], check=True, preexec_fn=die_with_parent)


convert()
