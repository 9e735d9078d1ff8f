"""Traces through a collector that others use: rotel, which takes OTLP and hands it on.

Its program comes with the package from PyPI and wants Debian's libpython3.11.
"""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import pytest
from harness import Start, eventually
from otlp import Collector, collecting
from servers import free_port

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def agent() -> Path:
    """Return the collector's program; the test is skipped where it cannot run."""
    files = metadata.files("rotel") or ()
    (program,) = [Path(str(one.locate())) for one in files if one.name == "rotel-agent"]
    tried = subprocess.run([program, "--help"], capture_output=True, text=True, check=False)
    if tried.returncode == 127:
        pytest.skip(f"rotel does not run: {tried.stderr}")  # tools/system_packages.txt names it
    return program


@contextmanager
def relaying(to: Collector, folder: Path) -> Iterator[str]:
    """Run it so that it hands on to another; yield the URL that it takes spans at."""
    port, grpc = free_port(), free_port()
    command = [
        str(agent()), "start", "--pid-file", str(folder / "rotel.pid"),
        "--otlp-http-endpoint", f"127.0.0.1:{port}", "--otlp-grpc-endpoint", f"127.0.0.1:{grpc}",
        "--exporter", "otlp", "--otlp-exporter-endpoint", to.url,
        "--otlp-exporter-protocol", "http", "--batch-timeout", "100ms",
    ]  # fmt: skip
    log = folder / "rotel.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        try:
            eventually(lambda: _answers(port), 10, f"rotel answers; {log.read_text()}")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(10)


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2):
            return True
    except urllib.error.HTTPError as exc:
        exc.close()
        return True
    except OSError:
        return False


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_spans_arrive_through_a_real_collector(
    start_node: Start, tmp_path: Path, compression: str
) -> None:
    with collecting() as end, relaying(end, tmp_path) as url:
        node = start_node("tests.programs.tasks_traced:app", run=False, workers=1)
        node.env |= {
            "OTEL_EXPORTER_OTLP_ENDPOINT": url,
            "OTEL_EXPORTER_OTLP_COMPRESSION": compression,
            "OTEL_BSP_SCHEDULE_DELAY": "50",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
        }
        node.start()
        place = f"00-{TRACE}-{PARENT}-01"
        handles = [
            node.submit(kind, spec={"traceparent": place}) for kind in ("where", "die", "flaky")
        ]
        ids = [handle.task_id for handle in handles if handle.wait(30)]
        end.wait(lambda: len(end.spans) >= 4, what="four attempts")
        assert node.stop() == 0
        assert [[span.status for span in end.of(one)] for one in ids] == [
            ["UNSET"], ["ERROR"], ["ERROR", "UNSET"],
        ]  # fmt: skip
        assert {(span.trace_id, span.parent) for span in end.spans} == {(TRACE, PARENT)}
        first, second = end.of(ids[2])
        assert second.links == ((TRACE, first.span_id),)
        assert second.resource["deployment.environment.name"] == "test"
        assert second.resource["service.name"] == "task-supervisor"
