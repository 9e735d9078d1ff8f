"""Tasks that print and log, and then end well, hang, leave at their soft limit, or are killed."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time

from supervisor import App

app = App()


@app.task(max_retries=0)
def says(ctx, text: str):
    _say(text)


@app.task(max_retries=0, interrupt=False)
def hangs(ctx, text: str):
    _say(text)
    time.sleep(60)


@app.task(max_retries=0)
def obeys(ctx, text: str):
    _say(text)
    time.sleep(60)


@app.task(max_retries=0)
def is_killed(ctx, text: str):
    _say(text)
    ctx.checkpoint({"text": text})
    ctx.progress(46, 300)
    time.sleep(1.5)  # the probes see it
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(max_retries=0)
def locks(ctx):
    made = [threading.Lock, threading.RLock, threading.Condition, threading.Thread.start]
    return {
        "made by": [f"{one.__module__}.{one.__qualname__}" for one in made],
        "lock": str(type(threading.Lock())),
        "hooks": [threading.getprofile(), sys.getprofile(), threading.gettrace(), sys.gettrace()],
    }


def _say(text: str) -> None:
    print(f"{text} was printed", flush=True)
    logging.getLogger("talk").warning("%s was logged", text)
