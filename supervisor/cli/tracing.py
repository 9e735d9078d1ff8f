"""What `supervisor check` says of traces: whether spans are exported, and whether that answers.

Secret kept here: the words. No credential of the address is shown; one connection is tried.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from supervisor.cli.finding import OK, WARN, Finding
from supervisor.telemetry.trace import Plan, plan

ABOUT = "traces"
CONNECT_S = 1.0


def trace_findings(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Tell whether a node with these variables writes spans."""
    found = plan(environ)
    if found.refused:
        yield Finding(ABOUT, WARN, f"no spans: {found.off}", found.remedy)
    elif found.off:
        yield Finding(ABOUT, OK, f"no spans: {found.off}")
    else:
        yield _reached(found, environ)


def _reached(found: Plan, environ: Mapping[str, str]) -> Finding:
    try:
        parts = urlsplit(found.endpoint)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        with socket.create_connection((parts.hostname or "", port), CONNECT_S):
            pass
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        return Finding(
            ABOUT, WARN, f"{found.endpoint} does not answer: {why}",
            "Start the collector, or correct OTEL_EXPORTER_OTLP_ENDPOINT; tasks run without it.",
        )  # fmt: skip
    sampler = environ.get("OTEL_TRACES_SAMPLER", "").strip()
    share = f", sampled by {sampler}" if sampler else ""
    return Finding(ABOUT, OK, f"spans go to {found.endpoint}{share}")
