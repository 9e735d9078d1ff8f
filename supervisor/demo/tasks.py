"""The demo's task types: half of them behave, the other half each have one well-known fault.

Written as a user would write them: nothing here knows that it is a demo. Every limit is short, so
that what takes an hour in production is over in seconds.
"""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from supervisor import App
from supervisor.clock import SystemClock

if TYPE_CHECKING:
    from supervisor.worker.context import TaskContext

app = App()
sleep = SystemClock().sleep


# --- tasks that behave ---------------------------------------------------------------------------


@app.task(counts=("mails",))
def send_mail(ctx: TaskContext, to: str) -> dict[str, Any]:
    """Be done at once."""
    ctx.count("mails")
    ctx.log.info("mail to %s is on its way", to)
    return {"sent_to": to}


@app.task(counts=("rows",), steps=("parse", "write"), expected_duration=3)
def import_rows(ctx: TaskContext, rows: int) -> dict[str, Any]:
    """Work through a list, reporting progress at each step."""
    for _ in ctx.track(range(rows)):
        with ctx.step("parse"):
            sleep(0.005)
        with ctx.step("write"):
            sleep(0.015)
        ctx.count("rows")
    return {"rows": rows}


@app.task(max_retries=3, error_codes=(503,), calls=("rates-api",))
def flaky_api(ctx: TaskContext, url: str) -> dict[str, Any]:
    """Fail the first time, as a service that is just being restarted would."""
    with ctx.call("rates-api"):
        sleep(0.05)
        if ctx.attempt == 1:
            ctx.error_code(503)
            raise ConnectionError(f"{url} answered 503")
    return {"status": 200, "attempt": ctx.attempt}


@app.task(progress_timeout=2.0, timeout=30.0)
def slow_report(ctx: TaskContext, pages: int) -> dict[str, Any]:
    """Take three times its progress limit, and be left alone because it advances."""
    done = (ctx.last_checkpoint or {"page": 0})["page"]
    for page in range(done, pages):
        ctx.check()
        sleep(0.5)
        ctx.progress(page + 1, pages)
        ctx.checkpoint({"page": page + 1})
    return {"pages": pages}


@app.task
async def fetch_pages(ctx: TaskContext, count: int) -> dict[str, Any]:
    """Wait for many things at once."""
    await asyncio.gather(*(asyncio.sleep(0.5) for _ in range(count)))
    ctx.progress(count, count)
    return {"pages": count}


@app.task
def nightly_batch(ctx: TaskContext, customers: list[str]) -> dict[str, Any]:
    """Submit one task for each customer, written together with this one's success."""
    for customer in customers:
        ctx.submit("send_mail", params={"to": customer}, on_success=True)
    return {"mails": len(customers)}


# --- tasks that go wrong -------------------------------------------------------------------------


@app.task(max_retries=3, no_retry_for=(ValueError,))
def wrong_input(ctx: TaskContext, amount: str) -> float:  # noqa: ARG001 - every body has it
    """Raise what no retry would cure: it ends in the dead letters at once."""
    return float(amount)


@app.task(timeout=3.0, soft_timeout=2.5, max_retries=0)
def transfer(ctx: TaskContext, a: str, b: str) -> None:
    """Take two locks in opposite order in two threads: a classic deadlock.

    It is told at its soft limit, but the way out waits for the same two threads.
    """
    locks = {a: threading.Lock(), b: threading.Lock()}
    both_hold_one = threading.Barrier(2)

    def move(source: str, target: str) -> None:
        with locks[source]:
            both_hold_one.wait()
            with locks[target]:
                ctx.log.info("never reached")

    with ThreadPoolExecutor(2, thread_name_prefix="transfer") as pool:
        for done in (pool.submit(move, a, b), pool.submit(move, b, a)):
            done.result()


@app.task(timeout=3.0, max_retries=0)
def count_forever(ctx: TaskContext) -> None:  # noqa: ARG001 - every body has it
    """Burn a core and swallow every request to stop."""
    total, checksum = 0, 1
    while True:
        try:
            while True:
                total += 1
                checksum = (checksum * 31 + total) % 1_000_003
        except BaseException:  # noqa: S112 - this is the fault that it shows
            continue


@app.task(timeout=6.0, progress_timeout=2.0, max_retries=0, interrupt=False, calls=("ledger",))
def ask_ledger(ctx: TaskContext, rows: int) -> int:
    """Read from a server that accepts the connection and then says nothing."""
    ctx.progress(0, rows)
    with socket.create_server(("127.0.0.1", 0)) as server:
        ctx.log.info("asking %s:%d", *server.getsockname())
        with ctx.call("ledger"), socket.create_connection(server.getsockname()) as line:
            ctx.progress(1, rows)
            return len(line.recv(4096))


@app.task
def read_archives(ctx: TaskContext, files: int) -> dict[str, Any]:
    """Open files and never close them: counted, and reported with its ending."""
    left_open = []
    for _ in ctx.track(range(files)):
        left_open.append(os.open(os.devnull, os.O_RDONLY))
        sleep(0.005)
    return {"read": len(left_open)}


@app.task
def start_daemons(ctx: TaskContext, count: int) -> dict[str, Any]:  # noqa: ARG001 - every body has it
    """Start processes in sessions of their own, which would outlive a careless supervisor."""
    started = [
        os.posix_spawnp("sleep", ["sleep", "3600"], os.environ, setsid=True) for _ in range(count)
    ]
    return {"started": started}


@app.task
def render_video(ctx: TaskContext, frames: int) -> dict[str, Any]:
    """Run for long, and leave at the next frame when somebody cancels it."""
    for _ in ctx.track(range(frames)):
        sleep(0.05)
    return {"frames": frames}


@app.task(max_retries=0)
def ignore_everything(ctx: TaskContext) -> None:
    """Swallow the request to stop, as `except BaseException` in a library would."""
    answer = Path(tempfile.gettempdir()) / f"answer-{ctx.task_id}"
    while True:
        try:
            while not answer.exists():  # which nobody will write
                sleep(0.05)
        except BaseException:  # noqa: S112 - this is the fault that it shows
            continue


@app.task(max_retries=3)
def convert_image(ctx: TaskContext, name: str) -> dict[str, Any]:
    """Lose its process in the first attempt (the demo kills it as the kernel would)."""
    if ctx.attempt == 1:
        ctx.log.info("decoding %s", name)
        sleep(60)
    return {"image": name, "attempt": ctx.attempt}
