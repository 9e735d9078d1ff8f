"""DIAGNOSIS blocked.child_process: a selector without timeout over stdout and stderr of a silent
child, in a pool thread; main waits for the future.
"""

import selectors
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from _stage import die_with_parent, ready

p = subprocess.Popen(
    ["sleep", "1000000"],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    preexec_fn=die_with_parent,
    stdin=subprocess.DEVNULL,
)


def pump():
    with selectors.DefaultSelector() as s:
        s.register(p.stdout, 1)
        s.register(p.stderr, 1)
        while s.get_map():
            for k, _ in s.select():
                if not k.fileobj.read1(4096):
                    s.unregister(k.fileobj)


with ThreadPoolExecutor(1) as ex:
    f = ex.submit(pump)
    time.sleep(0.2)
    ready()
    f.result()
