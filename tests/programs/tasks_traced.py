"""Tasks of an app that is traced: they tell where they are."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from supervisor import App

app = App()


@app.task(max_retries=0)
def where(ctx):
    return {
        "own": ctx.traceparent,
        "environment": os.environ.get("TRACEPARENT"),
        "loaded": sorted(name for name in sys.modules if name.startswith("opentelemetry")),
    }


@app.task(max_retries=0)
def program(ctx):
    command = [sys.executable, "-c", "import os; print(os.environ.get('TRACEPARENT'))"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@app.task(max_retries=0)
def die(ctx):
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(max_retries=0, timeout=1, soft_timeout=None)
def hang(ctx):
    time.sleep(60)


@app.task(max_retries=1)
def flaky(ctx):
    if ctx.attempt == 1:
        raise ValueError("not yet: secret-of-the-task")
    return ctx.traceparent


@app.task(max_retries=0)
def family(ctx):
    first = ctx.submit("where")
    ctx.submit("where", on_success=True)
    from_thread = []
    thread = threading.Thread(target=lambda: from_thread.append(ctx.submit("where")))
    thread.start()
    thread.join()
    return {"own": ctx.traceparent, "first": first, "from_thread": from_thread[0]}


@app.task(max_retries=1)
def nap(ctx, file, s):
    with Path(file).open("a") as seen:
        seen.write(f"{ctx.traceparent}\n")
    if ctx.attempt == 1:
        time.sleep(s)


@app.task(max_retries=0)
def wait_for_cancel(ctx):
    while True:
        ctx.check()
        time.sleep(0.01)


@app.task(max_retries=0)
def note(ctx):
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("ids %(trace_id)s %(span_id)s: %(message)s"))
    ctx.log.logger.addHandler(handler)
    try:
        ctx.log.warning("seen")
        raise RuntimeError("so that the output is kept")
    finally:
        ctx.log.logger.removeHandler(handler)
