"""The app that docker-compose.yml runs until you name your own (NODE_APP_DIR and NODE_APP in .env)."""

import platform
import time

from supervisor import App

app = App()


@app.task(timeout=60, max_retries=3)
def report(ctx, pages: int) -> dict:
    """Tell which host made it; 0.1 s a page."""
    for _ in ctx.track(range(pages)):
        time.sleep(0.1)  # the work
    return {"pages": pages, "host": platform.node()}
