"""DIAGNOSIS blocked.sleep: obeys a Retry-After of a day in a helper function of its HTTP client."""

import time

from _stage import ready


def backoff(headers):
    time.sleep(int(headers.get("Retry-After", 1)))


def call():
    backoff({"Retry-After": "86400"})


ready()
call()
