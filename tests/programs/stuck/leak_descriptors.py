"""DIAGNOSIS leak.fds: one file is opened again and again; the limit on descriptors is near."""

import resource
import time

from _stage import LONG_S, ready, temporary

LIMIT = 800
resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
template = temporary("template.txt")
template.write_text("Dear customer")
kept = []


def letter() -> str:
    file = template.open()
    kept.append(file)
    return file.readline()


while len(kept) < LIMIT - 25:
    letter()
ready()
time.sleep(LONG_S)
