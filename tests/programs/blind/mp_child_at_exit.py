"""DIAGNOSIS exit.hung_shutdown|blocked.child_process: multiprocessing's exit hook joins a non-
daemon child process that never ends.
"""

import multiprocessing as mp
import time

from _stage import die_with_parent, ready


def serve():
    die_with_parent()
    time.sleep(1e6)


if __name__ == "__main__":
    mp.get_context("fork").Process(target=serve).start()
    time.sleep(0.2)
    ready()
