"""DIAGNOSIS stopped.signal: READY is a background job that asks its controlling terminal for a
passphrase: the kernel stopped it with SIGTTIN.
"""

import fcntl
import os
import termios
import time

from _stage import die_with_parent, ready


def backup():
    die_with_parent()
    os.setpgid(0, 0)  # a background job of the session
    tty = os.open("/dev/tty", os.O_RDWR)
    ready()
    os.write(1, b"")
    return os.read(tty, 100)


master, slave = os.openpty()
pid = os.fork()
if pid == 0:
    die_with_parent()
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    if os.fork() == 0:
        backup()
        os._exit(0)
    time.sleep(1e6)
time.sleep(1e6)
