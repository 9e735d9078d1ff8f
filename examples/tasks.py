import time

from supervisor import App

app = App()


@app.task(timeout=60, max_retries=3, no_retry_for=(ValueError,))
def report(ctx, pages: int) -> dict:
    if pages < 1:
        raise ValueError("a report has at least one page")
    for _ in ctx.track(range(pages)):  # reports progress, and is where a cancel takes effect
        time.sleep(0.1)  # the work
    return {"pages": pages}


if __name__ == "__main__":
    handle = report.submit(pages=20, by="ada")
    print(handle.task_id, handle.wait(timeout=60).state)
