"""DIAGNOSIS blocked.external: an HTTP server takes the request and never answers; no timeout."""

import socket
import urllib.request
from collections.abc import Callable

from _stage import beside, ready


def serve(tell: Callable[[str], None]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        tell(str(server.getsockname()[1]))
        lines = []
        while True:
            lines.append(server.accept())


def download(url: str) -> bytes:
    ready()
    with urllib.request.urlopen(url) as answer:
        return answer.read()


download(f"http://127.0.0.1:{beside(serve)}/rates.csv?access_token=not-for-the-report")
