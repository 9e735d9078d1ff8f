"""DIAGNOSIS deadlock.in_process: work in a thread pool waits for more work of that full pool."""

from concurrent.futures import ThreadPoolExecutor, wait

from _stage import ready

pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="crawler")


def fetch(page: int) -> int:
    return page * 2


def crawl(site: int) -> int:
    return pool.submit(fetch, site).result()


sites = [pool.submit(crawl, site) for site in range(2)]
ready()
wait(sites)
