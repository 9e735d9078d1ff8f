"""DIAGNOSIS blocked.ipc|wait.no_waker: os.eventfd_read() on a counter of zero, which stays."""

import os

from _stage import ready

fd = os.eventfd(0)
ready()
os.eventfd_read(fd)
