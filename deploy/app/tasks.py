"""The app of docker-compose.yml until you name your own in .env (NODE_APP_DIR, NODE_APP)."""

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
