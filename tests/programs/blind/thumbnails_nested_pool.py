"""DIAGNOSIS deadlock.in_process: four album tasks fill a four-thread pool and each waits for page
tasks queued on the same pool.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait

from _stage import ready

pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="img")
started = threading.Barrier(5)


def thumbnail(album, page):
    return f"{album}/{page}.jpg"


def album(n):
    started.wait()
    parts = [pool.submit(thumbnail, n, p) for p in range(8)]
    done, _ = wait(parts)
    return len(done)


def main():
    albums = [pool.submit(album, n) for n in range(4)]
    started.wait()
    time.sleep(0.3)
    ready()
    for f in albums:
        print(f.result())


main()
