"""DIAGNOSIS zombie.process: the READY process is a forked worker that died of SIGSEGV; its launcher
sleeps and never reaps it.
"""

import os
import resource
import signal
import time

from _stage import die_with_parent, ready


def worker():
    die_with_parent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ready()
    os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(5)


def launcher():
    pid = os.fork()
    if pid == 0:
        worker()
        os._exit(1)
    while True:
        time.sleep(600)  # forgot SIGCHLD


launcher()
