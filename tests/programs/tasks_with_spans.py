"""Tasks of an app that writes spans of its own; they would be sent an hour after they ended."""

from __future__ import annotations

from functools import cache

from opentelemetry import trace

from supervisor import App

app = App()


@cache
def tracer():
    """Set up OpenTelemetry in the worker: threads of the SDK would forbid to fork the app."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    exporter = OTLPSpanExporter(timeout=2)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=3_600_000))
    trace.set_tracer_provider(provider)
    return trace.get_tracer("the-app")


@app.task(max_retries=0)
def inner(ctx):
    with tracer().start_as_current_span("query"):
        return ctx.submit("inner_async")


@app.task(max_retries=0)
async def inner_async(ctx):
    with tracer().start_as_current_span("query in a coroutine"):
        pass


@app.task(max_retries=0)
def by_client(ctx):
    """Submit past the node, with the app's own tracer."""
    with tracer().start_as_current_span("around"):
        return app.submit({"type": "inner_async"}).task_id
