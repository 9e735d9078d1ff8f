"""A program without a supervisor that has secrets in its environment, options and child."""

from __future__ import annotations

import os
import subprocess
import sys
import time

password = sys.argv[sys.argv.index("--password") + 1]
token = os.environ["CANARY_API_TOKEN"]
child = subprocess.Popen(
    [sys.executable, "-c", "import time; time.sleep(60)", f"--token={token}", f"-p{password}"]
)
print("ready", flush=True)
try:
    time.sleep(60)
finally:
    child.kill()
