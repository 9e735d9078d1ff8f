"""How log lines look: JSON for machines, columns for a terminal.

Secret kept here: structlog. Everything logs through the standard library, so that the user's own
logging set-up keeps working; the node calls `configure` once at start, a worker never does.
"""

from __future__ import annotations

import logging
import os
from collections.abc import MutableMapping
from typing import Any, TextIO

from supervisor.telemetry.events import LOGGER
from supervisor.telemetry.outlet import Outlet


def configure(
    stream: TextIO | Outlet, *, json: bool | None = None, level: int = logging.INFO
) -> None:
    """Send this process's log lines to `stream`; `json` None asks whether it is a terminal."""
    import structlog  # 0.1 s that only the node pays

    as_json = not stream.isatty() if json is None else json
    renderer: Any = (
        structlog.processors.JSONRenderer(ensure_ascii=False, default=str)
        if as_json
        else structlog.dev.ConsoleRenderer(
            colors=stream.isatty() and not os.environ.get("NO_COLOR")
        )
    )
    tail = [structlog.processors.format_exc_info] if as_json else []
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                _lift_fields,
            ],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *tail,
                renderer,
            ],
        )
    )
    logger = logging.getLogger(LOGGER)
    for old in [h for h in logger.handlers if isinstance(h, logging.StreamHandler)]:
        logger.removeHandler(old)
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False


def _lift_fields(_: object, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Put an event's fields beside its name instead of inside one key."""
    fields = getattr(line.get("_record"), "fields", None)
    if isinstance(fields, dict):
        line.update(fields)
    return line
