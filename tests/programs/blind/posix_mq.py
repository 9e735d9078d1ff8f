"""DIAGNOSIS blocked.ipc: mq_receive() (POSIX message queue, through ctypes) on an empty queue, in a
thread that main joins.
"""

import ctypes
import os
import threading
import time

from _stage import ready

rt = ctypes.CDLL("librt.so.1", use_errno=True)
name = b"/commands_%d" % os.getpid()
q = rt.mq_open(name, os.O_RDWR | os.O_CREAT, 0o600, None)
rt.mq_unlink(name)
assert q >= 0


def receiver():
    buf = ctypes.create_string_buffer(8192)
    rt.mq_receive(q, buf, 8192, None)


t = threading.Thread(target=receiver, name="receiver")
t.start()
time.sleep(0.2)
ready()
t.join()
