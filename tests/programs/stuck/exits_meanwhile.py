"""DIAGNOSIS none.exited: it ends by itself, with code 4, while it is looked at."""

import sys
import time

from _stage import ready

ready()
time.sleep(float(sys.argv[1]) if sys.argv[1:] else 0.3)
sys.exit(4)
