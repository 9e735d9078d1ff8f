"""DIAGNOSIS uninterruptible|blocked.child_process: subprocess.Popen(cwd=...) on a mount whose
server is dead: the vfork child hangs in chdir(), so the parent stays in D until exec.
"""

# ruff: noqa: SIM115

import ctypes
import os
import subprocess
import sys
import tempfile
import time

from _role import play, role
from _stage import cannot, ready

if role() == "undertaker":  # kills the vfork child when the program has died
    if os.fork():  # detached: it must outlive the program a moment
        os._exit(0)
    os.setsid()
    parent, kids = int(sys.argv[2]), set()
    while (
        os.path.exists(f"/proc/{parent}")
        and open(f"/proc/{parent}/stat").read().rsplit(")", 1)[1].split()[0] not in "ZX"
    ):
        try:
            kids |= {
                int(k) for k in open(f"/proc/{parent}/task/{parent}/children").read().split()
            } - {os.getpid()}
        except OSError:
            pass
        time.sleep(0.1)
    for k in kids:
        try:
            os.kill(k, 9)
        except OSError:
            pass
    sys.exit()

if not os.access("/dev/fuse", os.R_OK | os.W_OK):
    cannot("there is no /dev/fuse")
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x00020000):
    cannot("no right to mount")
libc.mount(b"none", b"/", None, 0x4000 | 0x40000, None)
root = tempfile.mkdtemp(prefix="nfs_")
fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
if libc.mount(
    b"share", root.encode(), b"fuse", 0, f"fd={fd},rootmode=40000,user_id=0,group_id=0".encode()
):
    cannot("no right to mount")
play("undertaker", str(os.getpid())).wait()
time.sleep(0.3)


def tar_project(name):
    ready()
    return subprocess.Popen(
        ["tar", "-c", "."], cwd=os.path.join(root, name), stdout=subprocess.DEVNULL
    )


tar_project("alpha").wait()
