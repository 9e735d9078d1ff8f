"""DIAGNOSIS wait.no_waker|none.idle: signal.pause() until a SIGUSR1 that a deploy script should
send.
"""

import signal

from _stage import ready

got = []
signal.signal(signal.SIGUSR1, lambda s, f: got.append(s))


def wait_for_go():
    while not got:
        signal.pause()


ready()
wait_for_go()
