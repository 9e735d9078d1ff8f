"""DIAGNOSIS exit.hung_shutdown|blocked.sleep: main has ended; a non-daemon Timer of a day keeps the
interpreter in threading._shutdown.
"""

import threading

from _stage import ready


def rotate_logs():
    pass


def main():
    threading.Timer(86400, rotate_logs).start()
    threading.Timer(0.2, ready).start()


main()
