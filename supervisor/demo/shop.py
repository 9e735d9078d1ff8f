"""The task types of `supervisor demo --live`: a shop on an ordinary day, and what goes wrong in it.

Written as a user would write them, in six queues. What an attempt meets (a slow service, a mail
that is refused) follows from its id, so that a rerun meets something else. The faults are those
of supervisor/demo/tasks.py.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
from random import Random
from typing import TYPE_CHECKING, Any

from supervisor import App
from supervisor.clock import SystemClock
from supervisor.demo import tasks

if TYPE_CHECKING:
    from supervisor.worker.context import TaskContext

app = App()
_clock = SystemClock()
sleep = _clock.sleep
#: The payment service has a bad minute in every four.
PAYMENTS_PERIOD_S, PAYMENTS_BAD_S = 240.0, 60.0


def luck_of(ctx: TaskContext) -> Random:
    """Return the dice of this attempt."""
    return Random(f"{ctx.task_id}/{ctx.attempt}")


# --- an ordinary day -----------------------------------------------------------------------------


@app.task(
    queue="mail", max_retries=4, expected_duration=0.2,
    counts=("mails",), error_codes=(451,), calls=("smtp",),
)  # fmt: skip
def send_mail(ctx: TaskContext, to: str) -> dict[str, Any]:
    """Hand a mail over; now and then it is to come again later."""
    luck = luck_of(ctx)
    with ctx.call("smtp"):
        sleep(luck.uniform(0.02, 0.12))
        if luck.random() < 0.04:
            ctx.error_code(451)
            raise ConnectionError("451 greylisted, try again later")
    ctx.count("mails")
    ctx.log.info("mail to %s is on its way", to)
    return {"sent_to": to}


@app.task(
    queue="orders", max_retries=3, no_retry_for=(ValueError,), expected_duration=1,
    counts=("orders",), error_codes=("card_declined",), steps=("load", "charge", "book"),
    calls=("payments", "warehouse"), secret_params=("card",),
)  # fmt: skip
def charge_order(ctx: TaskContext, order: int, amount: str, card: str) -> dict[str, Any]:  # noqa: ARG001
    """Charge a card; the service behind it has good minutes and bad ones."""
    luck = luck_of(ctx)
    bad = _clock.mono() % PAYMENTS_PERIOD_S < PAYMENTS_BAD_S
    with ctx.step("load"):
        sleep(luck.uniform(0.01, 0.05))
        cents = round(float(amount) * 100)
    with ctx.step("charge"), ctx.call("payments"):
        sleep(luck.uniform(0.3, 1.2) if bad else luck.uniform(0.05, 0.3))
        if luck.random() < (0.25 if bad else 0.02):
            raise ConnectionError("the payment service answered 503")
    if luck.random() < 0.05:
        ctx.error_code("card_declined")
        return {"order": order, "declined": True}
    with ctx.step("book"), ctx.call("warehouse"):
        sleep(luck.uniform(0.01, 0.04))
    ctx.count("orders")
    return {"order": order, "cents": cents, "receipt": ctx.submit("send_mail", params={
        "to": f"customer{order % 97}@example.org"}, on_success=True)}  # fmt: skip


@app.task(
    queue="imports", expected_duration=4, counts=("rows", "skipped"), steps=("parse", "write"),
    calls=("warehouse",), progress_timeout=10.0,
)  # fmt: skip
def import_rows(ctx: TaskContext, rows: int) -> dict[str, Any]:
    """Work through a list with progress, some computing and some writing."""
    luck = luck_of(ctx)
    with ctx.call("warehouse"):
        sleep(luck.uniform(0.02, 0.1))
    with (ctx.tempdir / "rows").open("wb") as file:
        for row in ctx.track(range(rows)):
            with ctx.step("parse"):
                digest = hashlib.pbkdf2_hmac("sha256", b"%d" % row, b"salt", 4000)
            with ctx.step("write"):
                file.write(digest * 512)
                sleep(0.02)
            ctx.count("skipped" if luck.random() < 0.02 else "rows")
    return {"rows": rows}


@app.task(
    queue="reports", timeout=30.0, progress_timeout=3.0, expected_duration=8, counts=("pages",)
)
def monthly_report(ctx: TaskContext, month: str, pages: int) -> dict[str, Any]:
    """Take its time, keep what it has, and leave at the next page when it is canceled."""
    done = (ctx.last_checkpoint or {"page": 0})["page"]
    for page in range(done, pages):
        ctx.check()
        sleep(0.5)
        ctx.progress(page + 1, pages)
        ctx.checkpoint({"page": page + 1})
        ctx.count("pages")
    return {"month": month, "pages": pages}


@app.task(queue="images", max_retries=3, expected_duration=2, counts=("images",))
def convert_image(ctx: TaskContext, name: str, pixels: int) -> dict[str, Any]:
    """Use memory and a core; its worker is killed now and then, as the kernel would."""
    picture = bytearray(pixels)
    for _ in ctx.track(range(4)):
        hashlib.sha256(picture).hexdigest()
        sleep(luck_of(ctx).uniform(0.2, 0.6))
    ctx.count("images")
    return {"image": name, "bytes": len(picture)}


@app.task(calls=("rates-api",), counts=("rates",))
async def fetch_rates(ctx: TaskContext, count: int) -> dict[str, Any]:
    """Ask for much at once, over connections to a service that answers slowly."""
    luck = luck_of(ctx)
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)

    async def ask(wait_s: float) -> int:
        with ctx.call("rates-api"):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"%f\n" % wait_s)
            got = len(await reader.read(-1))
            writer.close()
            return got

    async with server:
        sizes = await asyncio.gather(*(ask(luck.uniform(0.2, 1.4)) for _ in range(count)))
    ctx.count("rates", count)
    return {"rates": count, "bytes": sum(sizes)}


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send 20 rates, spread over the time that was asked for."""
    wait_s = float(await reader.readline())
    for _ in range(20):
        await asyncio.sleep(wait_s / 20)
        writer.write(b"EUR 1.0712\n" * 100)
    writer.close()


# --- what goes wrong -----------------------------------------------------------------------------


@app.task(timeout=6.0, soft_timeout=3.0, max_retries=1)
def search_archive(ctx: TaskContext, words: str) -> dict[str, Any]:
    """Be too slow for its limit, and leave when told."""
    for _ in ctx.track(range(200)):
        sleep(0.05)
    return {"found": words}


@app.task(queue="images", max_crashes=2)
def decode_video(ctx: TaskContext, name: str) -> None:
    """Bring its worker down each time, until it is quarantined."""
    ctx.log.info("decoding %s", name)
    sleep(0.3)
    os.kill(os.getpid(), signal.SIGKILL)


read_archives = app.task(queue="imports")(tasks.read_archives.function)
transfer = app.task(queue="orders", timeout=3.0, soft_timeout=2.5, max_retries=0)(
    tasks.transfer.function
)
count_forever = app.task(queue="reports", timeout=3.0, max_retries=0)(tasks.count_forever.function)
ask_ledger = app.task(
    queue="orders", timeout=6.0, progress_timeout=2.0, max_retries=0, interrupt=False,
    calls=("ledger",),
)(tasks.ask_ledger.function)  # fmt: skip
ignore_everything = app.task(queue="images", max_retries=0)(tasks.ignore_everything.function)
