"""A task that spreads its secrets everywhere it can, and then hangs, dies or raises."""

from __future__ import annotations

import base64
import faulthandler
import json
import logging
import os
import subprocess
import sys
import threading
import time

from supervisor import App

app = App()
log = logging.getLogger("canary")


class Refused(Exception):
    """What a client library raises with too much in its message."""


@app.task(max_retries=0, interrupt=False, secret_params=("reference", "seed"))
def spreads(ctx, how, password, api_key, token, reference, customer, seed):
    """`reference` and `seed` have innocent names and are marked; `customer` holds more below."""
    secret_local = f"local {password}"
    known = [password, api_key, token, reference, customer["pin"], customer["reference"], seed]
    urls = [os.environ["CANARY_DATABASE_URL"], os.environ["CANARY_REDIS_URL"]]
    header = {"Authorization": f"Basic {token}", "X-Api-Key": api_key, "Cookie": f"s={reference}"}
    for one in (*known, *urls, os.environ["CANARY_API_TOKEN"]):
        print(one, flush=True)
        log.warning("used %s for it", one)
        log.warning("in base64 %s", base64.b64encode(one.encode()).decode())
    print(json.dumps({"password": password, "inner": json.dumps(customer)}))
    print(repr({"token": token, "b": reference.encode()}), header, f"pin={customer['pin']}")
    log.error("headers were %r for %s", header, urls)
    child = subprocess.Popen(
        [
            sys.executable, "-c", "import time; time.sleep(60)",
            "--password", password, f"--api-key={api_key}", reference, f"u:{token}@h", urls[0],
        ]
    )  # fmt: skip
    threading.Thread(target=_sleeps, args=(secret_local, known), daemon=True, name="aside").start()
    try:
        raise Refused(f"login with {password} and {reference} at {urls[1]} was refused")
    except Refused:
        log.exception("it was refused: %s", reference)
        if how == "raises":
            child.kill()
            child.wait()
            raise
    if how == "aborts":
        time.sleep(0.5)
        child.kill()
        faulthandler.enable()
        os.abort()
    time.sleep(60)


def _sleeps(secret_local, known):
    assert secret_local
    assert known
    time.sleep(60)
