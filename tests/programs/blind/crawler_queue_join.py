"""DIAGNOSIS wait.no_waker: queue.join() although one worker skipped task_done() on an error; all
workers are back in get().
"""

import queue
import threading
import time

from _stage import ready

urls = queue.Queue()


def fetch(url):
    if url.endswith("7"):
        raise ValueError(url)
    return len(url)


def worker():
    while True:
        url = urls.get()
        try:
            fetch(url)
        except ValueError:
            continue
        urls.task_done()


for n in range(3):
    threading.Thread(target=worker, daemon=True, name=f"crawl-{n}").start()
for n in range(30):
    urls.put(f"/item/{n}")
time.sleep(0.3)
ready()
urls.join()
