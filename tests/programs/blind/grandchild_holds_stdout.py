"""DIAGNOSIS blocked.child_process: communicate() after the child ended: its background grandchild
(`cat`) inherited stdout, so EOF never comes.
"""

import os
import subprocess

from _stage import ready

r, w = os.pipe()


def install():
    p = subprocess.Popen(
        ["sh", "-c", f"cat <&{r} & echo started"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        pass_fds=[r],
    )
    os.close(r)
    ready()
    return p.communicate()


install()
