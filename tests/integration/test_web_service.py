"""The web process as a service: the store goes and comes, proxies stand before it, it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest
from api import Api
from flask.sessions import SecureCookieSession
from harness import eventually
from pages import PASSWORD, PagesUnderTest, pages
from waitress import wasyncore
from waitress.server import create_server

from supervisor.clock import SystemClock
from supervisor.testing import ManualClock
from supervisor.web.door import Door
from supervisor.web.refusals import ALL_MAX, OWN_MAX, UNKNOWN, WRONG_PASSWORD, Key, Refusals
from supervisor.web.server import ANSWER_MOST_BYTES
from supervisor.web.site import LARGEST_BODY_BYTES
from supervisor.web.wire import GRACE_S, LEAST_PER_S, channel_of

FORWARDED = {
    "X_Forwarded_For": "203.0.113.9", "X_Forwarded_Proto": "https",
    "X_Forwarded_Host": "tasks.example", "X_Forwarded_Prefix": "/supervisor",
}  # fmt: skip


def test_a_store_that_is_away_is_said_and_comes_back_by_itself(tmp_path: Path) -> None:
    with pages(tmp_path) as site:
        browser = site.opened()
        task_id = site.app.submit({"type": "greet", "params": {}}).task_id
        token = browser.get(f"/tasks/{task_id}").token()
        site.client.close()
        away = tmp_path / "away"
        away.mkdir()
        for file in tmp_path.glob("tasks.db*"):
            shutil.move(file, away)
        for path in ("/", "/tasks", f"/tasks/{task_id}", "/autopsies/latest", "/sign-in"):
            answer = browser.get(path)
            assert (answer.code, answer.heading) == (503, "The store is away 503")
            assert answer.headers["Retry-After"] == "5"
            assert '<meta http-equiv="refresh" content="5">' in answer.text
            assert str(tmp_path) not in answer.text
        posted = browser.post(f"/tasks/{task_id}/cancel", token, reason="x")
        assert posted.code == 503
        assert "refresh" not in posted.text
        for path in ("/healthz", "/metrics", "/static/style.css"):
            assert browser.get(path).code == 200
        for file in away.iterdir():
            shutil.move(file, tmp_path)
        assert browser.get(f"/tasks/{task_id}").heading == "greet PENDING"
        assert browser.act(task_id, "cancel").heading == "greet CANCELED"
        told = [json.loads(line)["event"] for line in site.log.read_text().splitlines()]
        assert told == ["web.started", "store.lost", "store.recovered"]


def test_it_may_start_before_the_store_is_there(tmp_path: Path) -> None:
    site = PagesUnderTest(tmp_path)
    try:
        browser = site.start().browser()
        assert browser.get(site.said["link"]).code == 503
        assert not site.store_path.exists()
        site.store_path.touch(mode=0o600)
        empty, ready = browser.get(site.said["link"]), browser.get("/readyz")
        assert (empty.code, "run <code>supervisor db upgrade</code>" in empty.text) == (503, True)
        assert (ready.code, ready.text) == (503, "the store is not ready\n")
        site.make_store()
        assert browser.get(site.said["link"]).heading == "Overview"
    finally:
        site.close()


def test_only_a_proxy_that_is_named_is_believed(tmp_path: Path) -> None:
    with pages(tmp_path) as site:
        site.add_user("vera")
        browser = site.browser(**FORWARDED)
        page = browser.get("/sign-in")
        assert 'action="/sign-in"' in page.text
        assert "Secure" not in page.headers["Set-Cookie"]
        browser.post("/sign-in", page.token(), name="vera", password="wrong word")
        assert site.notes()[-1] == ("unknown", "sign_in_refused", "as vera, from 127.0.0.1")


def test_behind_a_proxy_it_lives_below_its_path_and_over_https(tmp_path: Path) -> None:
    with pages(tmp_path, web_proxies="127.0.0.1") as site:
        site.add_user("vera")
        browser = site.browser(**FORWARDED)
        page = browser.get("/sign-in?next=/tasks")
        assert 'action="/supervisor/sign-in"' in page.text
        cookie = page.headers["Set-Cookie"]
        assert "Secure" in cookie
        assert "Path=/supervisor" in cookie
        (pair, *_) = cookie.split(";")
        again = site.browser(**FORWARDED, Cookie=pair, Referer="https://tasks.example/supervisor/")
        wrong = again.post("/sign-in", page.token(), name="vera", password="wrong word")
        assert wrong.code == 401
        assert site.notes()[-1] == ("unknown", "sign_in_refused", "as vera, from 203.0.113.9")
        moved = raw(
            site, "POST /sign-in", Cookie=pair, Referer="https://tasks.example/supervisor/",
            body=f"csrf_token={page.token()}&name=vera&password={PASSWORD}&next=/tasks",
        )  # fmt: skip
        assert "303 SEE OTHER" in moved
        assert "Location: /supervisor/tasks\r\n" in moved
        Api(site.base, None, X_Forwarded_For="<b>none</b>").get("/tasks")
        plain = "not signed in: GET /api/v1/tasks from 127.0.0.1"  # it sent no address
        assert site.notes()[-1] == ("unknown", "request_refused", plain)
        for prefix in ("//evil.example", "/a/../b", "https://evil.example", "/a b"):
            odd = site.browser(**{**FORWARDED, "X_Forwarded_Prefix": prefix}).get("/sign-in")
            assert 'action="/sign-in"' in odd.text


def raw(site: PagesUnderTest, line: str, body: str, **headers: str) -> str:
    """Send a request as a proxy does and return the answer as it came: no redirect is followed."""
    given = {
        **FORWARDED, **headers, "Host": "tasks.example", "Connection": "close",
        "Content_Type": "application/x-www-form-urlencoded", "Content_Length": str(len(body)),
    }  # fmt: skip
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in given.items())
    host, port = site.said["listen"].split(":")
    with socket.create_connection((host, int(port)), timeout=10) as line_to:
        line_to.sendall(f"{line} HTTP/1.1\r\n{head}\r\n{body}".encode())
        answer = b""
        while chunk := line_to.recv(65536):
            answer += chunk
    return answer.decode()


def test_next_leads_to_no_other_site(tmp_path: Path) -> None:
    with pages(tmp_path) as site:
        token = site.said["link"].split("=")[1]
        for following in (
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "x",
            "/\t/e",
        ):
            browser = site.browser()
            form = browser.get("/sign-in").token()
            assert browser.post("/sign-in", form, token=token, next=following).path == ""


def test_what_is_too_large_or_no_form_of_ours_is_refused(tmp_path: Path) -> None:
    with pages(tmp_path) as site:
        browser = site.opened()
        task_id = site.app.submit({"type": "greet", "params": {}}).task_id
        token = browser.get(f"/tasks/{task_id}").token()
        assert browser.post(f"/tasks/{task_id}/cancel", token, reason="x" * 70_000).code == 413
        assert browser.get("/tasks", method="DELETE").code == 405
        assert browser.get("/tasks", method="HEAD").code == 200
        assert site.client.view(task_id).state == "PENDING"
        counted = browser.get("/metrics").text
        assert 'http_requests_total{code="405",method="_other",route="_other"} 1.0' in counted


def test_sigterm_and_ctrl_c_end_it_in_order(tmp_path: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with pages(tmp_path) as site:
            for _ in range(OWN_MAX + 2):
                assert Api(site.base, None).get("/tasks").code == 401
            assert site.process is not None
            site.process.send_signal(number)
            assert site.process.wait(10) == 0
            assert site.process.stdout is not None
            site.process.stdout.close()
            assert '"event": "web.stopped"' in site.log.read_text().splitlines()[-1]
            more = "not signed in: 2 more from 127.0.0.1, not written down one by one"
            assert site.notes()[-1] == ("unknown", "request_refused", more)


def test_wrong_passwords_from_everywhere_are_no_flood_and_are_told(tmp_path: Path) -> None:
    with pages(tmp_path, start=False) as site:
        door = Door(site.client, SystemClock(), None, "me")
        for number in range(ALL_MAX + 2):
            door.bound.take(Key(WRONG_PASSWORD, UNKNOWN, f"10.0.0.{number}"))
        assert door.open_by_password("vera", "wrong word", "10.9.9.9", SecureCookieSession())
        assert site.notes() == []
        Refusals(site.client, SystemClock(), door.bound).tell(at_end=True)
        places = (f"10.0.0.{ALL_MAX}", f"10.0.0.{ALL_MAX + 1}", "10.9.9.9")
        assert [note for _who, _why, note in site.notes()] == [
            f"wrong password: 1 more from {place}, not written down one by one" for place in places
        ]


def test_an_end_that_nobody_asked_for_is_told_as_one(tmp_path: Path) -> None:
    with pages(tmp_path, start=False) as site:
        reading, writing = os.pipe()
        os.close(reading)  # nobody reads where the address is told
        try:
            done = subprocess.run(
                [sys.executable, "-m", "supervisor.cli", "web", "--json"],
                cwd=site.root, env=site.env, stdout=writing, stderr=subprocess.PIPE, text=True,
                timeout=30,
            )  # fmt: skip
        finally:
            os.close(writing)
        assert done.returncode != 0
        assert '"reason": "failed: BrokenPipeError"' in done.stderr


def test_an_address_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with pages(tmp_path, start=False, web_listen=listen) as site:
            refused = site.cli("web")
    assert refused.returncode == 1
    assert refused.stderr == (
        f"error: web_listen: cannot listen on {listen}: {os.strerror(98)}\n"
        "remedy: Choose another address with --web-listen; port 0 takes a free one.\n"
    )


def test_what_it_reads_it_gives_back(tmp_path: Path) -> None:
    with pages(tmp_path) as site:
        browser = site.opened()
        assert site.process is not None
        place = f"/proc/{site.process.pid}/fd"
        browser.get("/")
        before = len(os.listdir(place))
        for _ in range(30):
            assert browser.get("/").code == 200
        eventually(lambda: len(os.listdir(place)) <= before + 2, 5)


class Wire:
    """The server of the pages over a site of this test, in a thread, on a clock that is set."""

    def __init__(self, site: Callable[[Any, Any], Iterable[bytes]], **given: Any) -> None:
        self.told: list[tuple[int, str]] = []
        self.clock = ManualClock()
        self.server = create_server(site, listen="127.0.0.1:0", threads=1, **given)
        self.server.channel_class = channel_of(
            lambda code, address: self.told.append((code, address)), {}, self.clock
        )
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.task_dispatcher.shutdown()  # whoever has answered wakes the loop once more
        # Its thread alone may close what it waits for; with nothing left to wait for it ends.
        self.server.trigger.pull_trigger(lambda: wasyncore.close_all(self.server._map))
        self.thread.join(10)

    @property
    def channels(self) -> list[Any]:
        return list(self.server.active_channels.values())

    def has_come(self, size: int) -> bool:
        """Say whether so much has come of the request on the only connection."""
        (channel,) = self.channels
        return channel._coming is not None and channel._coming.moved >= size

    def connected(self, sent: bytes) -> socket.socket:
        line = socket.create_connection(self.server.socket.getsockname(), 10)
        line.sendall(sent)
        return line


def whole(line: socket.socket) -> bytes:
    """Read to the end, however that comes."""
    with line, suppress(ConnectionResetError):
        return b"".join(iter(lambda: line.recv(65536), b""))
    return b""


def greeting(_environ: Any, start_response: Any) -> list[bytes]:
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /autopsies/open HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\nPK",
        b"POST /autopsies/open HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nPKx",
        b"GET / HTTP/1.1\r\nHos",
    ],
)
def test_who_trickles_is_refused_and_holds_no_thread(sent: bytes) -> None:
    with Wire(greeting) as wire:
        line = wire.connected(sent)
        eventually(lambda: [one for one in wire.channels if one.request], 5)
        wire.clock.advance(GRACE_S - 1)
        other = wire.connected(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert whole(other).endswith(b"\r\n\r\nok")
        assert wire.told == []
        wire.clock.advance(2)
        head, _, body = whole(line).partition(b"\r\n\r\n")
        assert head.split(b"\r\n")[0].endswith(b" 408 Request Timeout")
        assert json.loads(body)["detail"] == (
            "The request did not come within 20 s, nor 8192 bytes in each second."
        )
        assert wire.told == [(408, "127.0.0.1")]


def test_what_is_far_too_long_is_refused_and_whoever_sends_it_is_told(tmp_path: Path) -> None:
    with pages(tmp_path) as site:
        browser = site.opened()
        token = browser.get("/autopsies/open").token()
        huge = bytes(LARGEST_BODY_BYTES)
        answer = browser.upload("/autopsies/open", token, "bundle", "a.zip", huge)
        assert (answer.code, json.loads(answer.body)["title"]) == (413, "Request Entity Too Large")
        assert site.notes()[-1][2] == "too large: a request from 127.0.0.1"


def test_who_is_refused_and_sends_on_is_let_go() -> None:
    sent = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n"
    with Wire(greeting) as wire, wire.connected(sent) as line:
        assert line.recv(4000).startswith(b"HTTP/1.1 413 ")
        line.sendall(bytes(1000))
        eventually(lambda: all(one._left for one in wire.channels), 5)
        assert wire.channels
        wire.clock.advance(GRACE_S + 1)
        eventually(lambda: not wire.channels, 5)


def test_who_keeps_pace_or_asks_nothing_is_left_alone() -> None:
    with Wire(greeting) as wire, wire.connected(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n") as line:
        assert line.recv(4000).endswith(b"ok")
        wire.clock.advance(10 * GRACE_S)
        length = 30 * LEAST_PER_S
        line.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % length)
        for turn in range(1, 30):
            line.sendall(bytes(LEAST_PER_S))
            eventually(partial(wire.has_come, turn * LEAST_PER_S), 5)
            wire.clock.advance(1)
        line.sendall(bytes(LEAST_PER_S))
        assert line.recv(4000).endswith(b"ok")
        assert wire.told == []


def test_who_does_not_read_holds_no_thread_and_is_let_go() -> None:
    size = 24 << 20

    def site(environ: Any, start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/":
            return greeting(environ, start_response)
        start_response("200 OK", [("Content-Length", str(size))])
        return iter([bytes(1 << 20)] * 24)

    with Wire(site, outbuf_high_watermark=ANSWER_MOST_BYTES) as wire:
        line = wire.connected(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        eventually(lambda: any(c.total_outbufs_len > size / 2 for c in wire.channels), 10)
        other = wire.connected(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert whole(other).endswith(b"ok")
        for _ in range(3):  # it takes what its buffer holds, then nothing
            eventually(lambda: all(c._going for c in wire.channels), 5)
            wire.clock.advance(size / LEAST_PER_S)
        eventually(lambda: not wire.channels, 10)
        assert len(whole(line)) < size
