"""DIAGNOSIS wait.no_waker: a barrier for three, of which one has ended before it came there."""

import threading

from _stage import ready

start = threading.Barrier(3)


def run(fit: bool) -> None:
    if fit:
        start.wait()


runners = [threading.Thread(target=run, args=(fit,)) for fit in (True, False)]
for runner in runners:
    runner.start()
runners[1].join()
ready()
start.wait()
