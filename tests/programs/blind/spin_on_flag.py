"""DIAGNOSIS busy.python: `while not flag: pass` in a worker thread on a global that is never set;
main joins.
"""

import threading

from _stage import ready

shutdown = False


def wait_for_shutdown():
    while not shutdown:
        pass


def main():
    t = threading.Thread(target=wait_for_shutdown, name="spinner")
    t.start()
    ready()
    t.join()


main()
