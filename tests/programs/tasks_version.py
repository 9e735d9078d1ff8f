"""A later version of an app: it knows a type that others do not."""

from __future__ import annotations

from typing import Any

from supervisor import App

app = App()


@app.task
def greet_again(ctx: Any) -> str:
    return "hello again"
