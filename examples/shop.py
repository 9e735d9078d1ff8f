"""A larger example: an order is imported page by page, then mailed and counted.

supervisor run shop:app                      in this directory
python shop.py                               submits one import and waits for it
"""

import asyncio
import time

from supervisor import App, SoftTimeout

app = App()


@app.task(queue="imports", timeout=600, progress_timeout=60)
def import_orders(ctx, pages: int) -> dict:
    """Resume where the last attempt stopped; submit a mail for each page once all succeeded."""
    done = (ctx.last_checkpoint or {"page": 0})["page"]
    for page in range(done, pages):
        ctx.check()  # leaves here when canceled, out of time, or the node stops
        time.sleep(0.05)  # the work; write with ctx.attempt as fence if a doubled write hurts
        ctx.checkpoint({"page": page + 1})
        ctx.progress(page + 1, pages)
        ctx.submit("send_mail", params={"to": f"page{page}@example.org"}, on_success=True)
    return {"pages": pages, "from_page": done}


@app.task(queue="mail", timeout=20, max_retries=5, retry_base=2)
async def send_mail(ctx, to: str) -> dict:
    """An async body is canceled as asyncio cancels: at its next await."""
    await asyncio.sleep(0.05)
    ctx.log.info("mailed %s", to)
    return {"to": to}


@app.task(timeout=10, soft_timeout=8)
def count_words(ctx, path: str) -> dict:
    """Give a partial answer when time runs out."""
    words = 0
    with open(path) as file:
        try:
            for line in ctx.track(file):
                words += len(line.split())
        except SoftTimeout:
            return {"words": words, "complete": False}
    return {"words": words, "complete": True}


@app.on_release
def close_connections() -> None:
    """Close what this worker process holds, before it exits."""


if __name__ == "__main__":
    handle = import_orders.submit(pages=3, by="ada", dedup_key="import:2026-11", priority=7)
    again = import_orders.submit(pages=3, by="bob", dedup_key="import:2026-11")
    assert again.task_id == handle.task_id  # one key, one task
    print(handle.wait(timeout=60).state, handle.result())
