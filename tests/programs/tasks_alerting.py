"""Task types of which each gets into one kind of trouble that an alert is there for."""

from __future__ import annotations

import contextlib
import time

from supervisor import App
from supervisor.errors import TaskCanceled

app = App()


@app.task(queue="billing", max_retries=0, interrupt=False)
def bills(ctx, hangs: bool = False):
    """Fail, always; when it hangs, by its timeout."""
    if hangs:
        time.sleep(600)
    raise ValueError("no such customer")


@app.task(queue="mailing", max_retries=0)
def mails(ctx, deaf: bool = False):
    """Run until somebody cancels it; one that is deaf has to be killed."""
    while True:
        with contextlib.suppress(TaskCanceled) if deaf else contextlib.nullcontext():
            time.sleep(600)


@app.task(queue="importing", max_retries=0, timeout=2, interrupt=False)
def imports(ctx, s: float):
    """Take a given part of its two seconds."""
    time.sleep(s)


@app.task(queue="reporting", max_retries=0)
def reports(ctx, s: float):
    """Take so long that the queue of its like grows, or none at all."""
    time.sleep(s)


@app.task(queue="rendering", max_retries=0)
def renders(ctx):
    """Run for long; its process is stopped from outside."""
    time.sleep(600)
