"""The pages under test: `supervisor web` as a process, and a browser without a screen to ask it.

Secret kept here: how the process is started and ended, and how forms are sent. Its store is a file
of its own with tables and, where a test wants evidence, a bundle that was really written.
"""

from __future__ import annotations

import html
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any, Self

from report_sample import HEADING, sections

from autopsy.bundle import write_bundle
from autopsy.section import Section
from supervisor import App
from supervisor.client import Client
from supervisor.model.access import Role
from supervisor.store import AutopsyRecord, open_store
from supervisor.store.record import TokenRecord, UserRecord
from supervisor.web.secret import digest, hash_password, new_token

REPOSITORY = Path(__file__).parents[1]
PASSWORD = "a long enough word"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, after all redirects."""

    code: int
    url: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def path(self) -> str:
        return self.url.split("/", 3)[3]

    @property
    def heading(self) -> str:
        found = re.search(r"<h1>(.*?)</h1>", self.text, re.DOTALL)
        assert found is not None, self.text
        return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", found[1])).split())

    @property
    def flash(self) -> str:
        found = re.search(r'<p class="flash \w+" role="\w+">(.*?)</p>', self.text, re.DOTALL)
        return html.unescape(found[1]) if found else ""

    def hidden(self) -> dict[str, str]:
        """Return what the forms of the page say without showing it."""
        found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', self.text)
        return {name: html.unescape(value) for name, value in found}

    def token(self) -> str:
        found = re.search(r'name="csrf_token" value="([^"]+)"', self.text)
        assert found is not None, self.text
        return html.unescape(found[1])


class Browser:
    """Asks one site; keeps its cookies."""

    def __init__(self, base: str, **headers: str) -> None:
        self.base = base.rstrip("/")
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.cookies = CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))

    def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        return self._ask(urllib.request.Request(self._url(path), method=method), headers)

    def post(self, path: str, _token: str | None = None, **fields: str) -> Answer:
        """Send a form; `_token` is its CSRF token, None sends none."""
        values = {**fields, **({} if _token is None else {"csrf_token": _token})}
        data = urllib.parse.urlencode(values).encode()
        return self._ask(urllib.request.Request(self._url(path), data), {})

    def post_all(self, path: str, fields: list[tuple[str, str]]) -> Answer:
        """Send a form whose fields may have several values."""
        data = urllib.parse.urlencode(fields).encode()
        return self._ask(urllib.request.Request(self._url(path), data), {})

    def upload(
        self, path: str, _token: str | None, field: str, name: str, content: bytes
    ) -> Answer:
        """Send a form with one file, as a browser does."""
        mark = b"----------of-a-test"
        head = f'Content-Disposition: form-data; name="{field}"; filename="{name}"\r\n'
        parts = [mark, b"\r\n", head.encode(), b"Content-Type: application/zip\r\n\r\n", content]
        if _token is not None:
            parts += [b"\r\n", mark, b'\r\nContent-Disposition: form-data; name="csrf_token"']
            parts += [b"\r\n\r\n", _token.encode()]
        body = b"--" + b"".join(parts).replace(b"\r\n" + mark, b"\r\n--" + mark)
        request = urllib.request.Request(self._url(path), body + b"\r\n--" + mark + b"--\r\n")
        request.add_header("Content-Type", f"multipart/form-data; boundary={mark.decode()}")
        return self._ask(request, {})

    def sign_in(self, name: str, password: str = PASSWORD, next: str = "/") -> Answer:
        token = self.get("/sign-in").token()
        return self.post("/sign-in", token, name=name, password=password, next=next)

    def act(self, task_id: str, verb: str, reason: str = "because") -> Answer:
        """Load the page of a task and send its form, with all that it says."""
        seen = self.get(f"/tasks/{task_id}").hidden()
        return self.post(f"/tasks/{task_id}/{verb}", None, reason=reason, **seen)

    def _url(self, path: str) -> str:
        return path if path.startswith("http") else self.base + path

    def _ask(self, request: urllib.request.Request, headers: Mapping[str, str]) -> Answer:
        for name, value in {**self.headers, **headers}.items():
            request.add_header(name.replace("_", "-"), value)
        try:
            answer = self._opener.open(request, timeout=20)
        except urllib.error.HTTPError as exc:
            answer = exc
        with answer:
            return Answer(answer.code, answer.url, answer.headers, answer.read())


class PagesUnderTest:
    """One `supervisor web` and its store."""

    def __init__(self, root: Path, url: str | None = None, **settings: str) -> None:
        self.root = root
        self.store_path = root / "tasks.db"
        self.url = url or f"sqlite:///{self.store_path}"
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith("SUPERVISOR_")},
            "SUPERVISOR_STORE": self.url,
            "SUPERVISOR_WEB_LISTEN": "127.0.0.1:0",
            "PYTHONPATH": str(REPOSITORY),
            "PYTHONDONTWRITEBYTECODE": "1",
            **{f"SUPERVISOR_{name.upper()}": value for name, value in settings.items()},
        }
        self.process: subprocess.Popen[str] | None = None
        self.said: dict[str, Any] = {}
        self.log = root / "web.log"
        self.app = App(store=self.url)

    def make_store(self) -> Self:
        open_store(self.url, create=True).close()
        return self

    def start(self) -> Self:
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "supervisor.cli", "web", "--json"],
                cwd=self.root, env=self.env, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log.read_text()
        self.said = json.loads(line)
        return self

    def stop(self) -> int:
        """End it as systemd does; return the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(15)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.stop()
        self.app.client.close()

    @property
    def client(self) -> Client:
        return self.app.client

    @property
    def base(self) -> str:
        return str(self.said["url"])

    def browser(self, **headers: str) -> Browser:
        return Browser(self.base, **headers)

    def opened(self) -> Browser:
        """Return a browser that has followed the printed link."""
        browser = self.browser()
        assert browser.get(self.said["link"]).heading == "Overview"
        return browser

    def cli(self, *args: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "supervisor.cli", *args],
            cwd=self.root, env=self.env, input=given, capture_output=True, text=True, timeout=30,
        )  # fmt: skip

    def add_user(self, name: str, role: Role = Role.VIEWER, *, autopsies: bool = False) -> None:
        """Do what `supervisor users add` does, sooner."""
        hashed = hash_password(PASSWORD)
        fields = _given(name, role, autopsies)
        added = self.client.change_access(
            lambda access, now: access.add_user(
                UserRecord(password=hashed, created_at=now, changed_at=now, **fields)
            )
        )
        assert added

    def add_token(self, name: str, role: Role = Role.VIEWER, *, autopsies: bool = False) -> str:
        """Do what `supervisor tokens create` does, sooner."""
        token = new_token()
        fields = _given(name, role, autopsies)
        added = self.client.change_access(
            lambda access, now: access.add_token(
                TokenRecord(token_hash=digest(token), created_at=now, ends_at=None, **fields)
            )
        )
        assert added
        return token

    def notes(self) -> list[tuple[str, str, str | None]]:
        """Return operator, reason and note of what moved no task, oldest first."""
        lines = self.client.reader.audit(limit=500)
        return [(x.operator, x.reason, x.note) for x in reversed(lines) if x.to_state is None]

    def add_autopsy(
        self,
        task_id: str | None,
        autopsy_id: str = "evidence-1",
        *,
        verdict: str = "timeout",
        path: Path | None = None,
        parts: list[Section] | None = None,
        **changes: Any,
    ) -> AutopsyRecord:
        """Write a bundle and its record."""
        file = path or self.root / f"{autopsy_id}.zip"
        heading = HEADING
        size = 0
        if path is None:
            size = write_bundle(file, heading, parts or sections(), "as text", is_clean=True)
        record = AutopsyRecord(
            autopsy_id=autopsy_id,
            task_id=task_id,
            attempt=1,
            node_id="node_a",
            pid=4711,
            path=str(file),
            status="complete",
            verdict=verdict,
            diagnosis=heading.diagnosis[0].code,
            diagnosis_json=json.dumps([asdict(one) for one in heading.diagnosis]),
            created_at=self.client.reader.store.clock.now(),
            bytes=size,
            ms=287,
        )
        record = replace(record, **changes)
        self.client.record_autopsy(record)
        return record


def _given(name: str, role: Role, autopsies: bool) -> dict[str, Any]:
    return {"name": name, "role": role, "sees_autopsies": autopsies, "created_by": "tester"}


@contextmanager
def pages(
    root: Path, *, start: bool = True, url: str | None = None, **settings: str
) -> Iterator[PagesUnderTest]:
    """Make the pages with a store (a file, or what `url` names), and end them whatever happens."""
    made = PagesUnderTest(root, url, **settings).make_store()
    try:
        yield made.start() if start else made
    finally:
        made.close()
