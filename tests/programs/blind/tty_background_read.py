"""DIAGNOSIS stopped.signal: a background job reads its terminal: SIGTTIN stopped it (a pty of our
own; the session leader waits for us).
"""

import fcntl
import os
import pty
import termios
import time

from _stage import die_with_parent, ready

master, slave = pty.openpty()
if os.fork():
    os.wait()
    os._exit(0)
die_with_parent()
os.setsid()
fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
if os.fork():
    os.wait()
    os._exit(0)
die_with_parent()
os.setpgid(0, 0)
time.sleep(0.2)
ready()
os.read(slave, 10)
os._exit(0)
