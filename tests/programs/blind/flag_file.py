"""DIAGNOSIS blocked.polling: waits for a marker file that never appears, looking every 100 ms."""

import os
import time

from _stage import ready


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.1)


ready()
wait_for("/nonexistent/daily/_SUCCESS")
