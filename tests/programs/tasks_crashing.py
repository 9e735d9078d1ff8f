"""Tasks that say something, work for a while, and die without a word, each in its way."""

from __future__ import annotations

import ctypes
import logging
import os
import time

from supervisor import App

app = App()


@app.task(max_retries=0)
def aborts(ctx):
    _lead_up(ctx)
    os.abort()


@app.task(max_retries=0)
def reads_nowhere(ctx):
    _lead_up(ctx)
    ctypes.string_at(0)


@app.task(max_retries=0)
def leaves(ctx):
    _lead_up(ctx)
    os._exit(7)


@app.task(max_retries=0)
def waits_to_be_killed(ctx):
    """Somebody outside does that."""
    _lead_up(ctx)
    time.sleep(600)


@app.task(max_retries=0)
def eats_memory(ctx):
    kept = [_lead_up(ctx)]
    while True:
        kept.append(b"x" * 2**22)


def _lead_up(ctx):
    print("about to fail", flush=True)
    logging.getLogger("work").warning("step %d of %d", 3, 9)
    ctx.progress(3, 9)
    end = time.monotonic() + 2.2  # seen by some probes, and by the ring of stacks
    while time.monotonic() < end:
        time.sleep(0.01)
