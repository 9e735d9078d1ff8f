"""DIAGNOSIS uninterruptible: os.stat() on a mount whose (FUSE) server never answers: a pool thread
sits in state D, the main thread waits for its result.
"""

import ctypes
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor

from _stage import cannot, ready

if not os.access("/dev/fuse", os.R_OK | os.W_OK):
    cannot("there is no /dev/fuse")
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x00020000):  # own mount namespace: the mount goes with us
    cannot("no right to mount")
libc.mount(b"none", b"/", None, 0x4000 | 0x40000, None)  # MS_REC|MS_PRIVATE
root = tempfile.mkdtemp(prefix="share_")
fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
if libc.mount(
    b"share", root.encode(), b"fuse", 0, f"fd={fd},rootmode=40000,user_id=0,group_id=0".encode()
):
    cannot("no right to mount")


def checksum(path):
    return os.stat(os.path.join(path, "photos", "2024.tar")).st_size


def nightly_scan(paths):
    with ThreadPoolExecutor(2, thread_name_prefix="scan") as pool:
        futures = [pool.submit(checksum, p) for p in paths]
        ready()
        return [f.result() for f in futures]


print(nightly_scan([root]))
