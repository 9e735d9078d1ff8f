"""Tasks that print and log, and then end well, hang, leave at their soft limit, or are killed."""

from __future__ import annotations

import logging
import os
import signal
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


def _say(text: str) -> None:
    print(f"{text} was printed", flush=True)
    logging.getLogger("talk").warning("%s was logged", text)
