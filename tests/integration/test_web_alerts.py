"""The page of alerts: told by a real Alertmanager as its generated file says, and by others."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from harness import eventually
from monitoring_servers import Alertmanager, fetch, start_alertmanager
from pages import Browser, PagesUnderTest, pages

from supervisor.model.access import Role
from supervisor.monitoring.alertmanager import PAGES_PATH, PAGES_SILENT_S
from supervisor.store.ledger.alerts import Telling
from supervisor.web.api.alertmanager import BODY_MAX

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}\x1b[2J\u202ex"
LIVE = ("<script>alert", "<img src=x", "\x1b", "\u202e", "49\\x1b")
PATH = PAGES_PATH
BEGAN = datetime.now(UTC) - timedelta(minutes=20)
START = f"{BEGAN:%Y-%m-%dT%H:%M:%S}.123456789Z"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesUnderTest]:
    with pages(tmp_path_factory.mktemp("alerts")) as made:
        yield made


@pytest.fixture(scope="module")
def browser(site: PagesUnderTest) -> Browser:
    return site.opened()


@pytest.fixture(scope="module")
def teller(site: PagesUnderTest) -> str:
    return site.add_token("am", Role.TELLER)


def send(site: PagesUnderTest, token: str, body: Any, path: str = PATH) -> tuple[int, Any]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{site.base.rstrip('/')}{path}", raw, headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, json.loads(exc.read())


def alert(name: str, fingerprint: str, **more: Any) -> dict[str, Any]:
    return {
        "status": "firing",
        "labels": {"alertname": name, "severity": "critical", "type": "pay"},
        "annotations": {"summary": f"{name} is bad"},
        "startsAt": START,
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://prometheus/graph",
        "fingerprint": fingerprint,
        **more,
    }


def delivery(*alerts: dict[str, Any]) -> dict[str, Any]:
    return {"version": "4", "receiver": "pages", "status": "firing", "alerts": list(alerts)}


def firing(browser: Browser) -> str:
    return browser.get("/alerts").text.partition('id="firing"')[2].partition("</section>")[0]


def test_before_anything_was_told_the_page_says_how(browser: Browser) -> None:
    page = browser.get("/alerts")
    assert "Alertmanager has told nothing yet." in page.text
    assert "supervisor tokens create alertmanager --role teller" in page.text


def test_what_fires_is_shown_with_where_it_leads_until_it_is_over(
    site: PagesUnderTest, browser: Browser, teller: str
) -> None:
    links = {
        "summary": "pay stands still",
        "runbook_url": "https://docs/runbooks/TaskStuck.md",
        "dashboard_url": "javascript:alert(1)",
        "autopsy_url": "http://elsewhere/autopsies/latest?type=pay&verdict=stalled&x=1",
    }
    one = alert("TaskStuck", "a1", annotations=links)
    assert send(site, teller, delivery(one)) == (200, {"alerts": 1, "changed": 1})
    assert send(site, teller, delivery(one, one)) == (200, {"alerts": 2, "changed": 0})
    shown = firing(browser)
    assert "pay stands still" in shown
    assert set(re.findall(r'href="([^"]+)"', shown)) == {
        "/tasks?state=PENDING&amp;state=RUNNING&amp;type=pay",
        "/autopsies/latest?type=pay&amp;verdict=stalled",
        "https://docs/runbooks/TaskStuck.md",
    }
    assert "javascript:" not in browser.get("/alerts").text
    over = {**one, "status": "resolved", "endsAt": (BEGAN + timedelta(minutes=5)).isoformat()}
    assert send(site, teller, delivery(over)) == (200, {"alerts": 1, "changed": 1})
    assert send(site, teller, delivery(one)) == (200, {"alerts": 1, "changed": 0})
    assert "pay stands still" not in firing(browser)
    assert "pay stands still" in browser.get("/alerts").text
    listed = json.loads(browser.get("/api/v1/alerts").text)["alerts"]
    assert [(x["name"], x["ends_at"] is None) for x in listed] == [("TaskStuck", False)]


def test_what_is_not_repeated_is_not_claimed_to_fire(
    site: PagesUnderTest, browser: Browser
) -> None:
    now = datetime.now(UTC)
    silent = Telling(
        fingerprint="51", starts_at=now - timedelta(hours=1), ends_at=None, name="WentSilent",
        severity="warning", labels={"alertname": "WentSilent"}, annotations={},
    )  # fmt: skip
    heard = now - timedelta(seconds=PAGES_SILENT_S + 60)
    site.client._ledger(create=False).run(lambda tx: tx.alerts.take([silent], heard))
    shown = firing(browser)
    assert "Last heard 8 m" in shown
    assert "it is not repeated any more" in shown
    assert "No Watchdog was heard" in shown


def test_only_who_may_tell_is_heard_and_a_teller_sees_nothing(
    site: PagesUnderTest, browser: Browser, teller: str
) -> None:
    viewer = site.add_token("grafana")
    assert send(site, viewer, delivery())[0] == 403
    assert send(site, "svt_nobody", delivery())[0] == 401
    admin = site.add_token("ops", Role.ADMIN)
    assert send(site, admin, delivery())[0] == 200
    asking = site.browser(Authorization=f"Bearer {teller}")
    for path in ("/", "/tasks", "/audit", "/alerts", "/api/v1/tasks", "/api/v1/alerts"):
        assert asking.get(path).code == 403, path
    cookie_only = browser.post(PATH)
    assert cookie_only.code == 403


def test_odd_deliveries_are_refused_or_taken_whole(site: PagesUnderTest, teller: str) -> None:
    good = alert("Odd", "0dd")
    for wrong in (
        {},
        {"alerts": None},
        delivery({**good, "status": "maybe"}),
        delivery({**good, "startsAt": "yesterday"}),
        delivery({**good, "startsAt": "2026-05-20T10:30:00"}),
        delivery({**good, "fingerprint": "../x"}),
        delivery({**good, "labels": {"alertname": 7}}),
        delivery(good, {"status": "firing"}),
    ):
        assert send(site, teller, wrong)[0] == 422, wrong
    assert send(site, teller, b"[" * 100_000)[0] in (400, 422)
    assert send(site, teller, b"{")[0] == 400
    assert send(site, teller, b" " * (BODY_MAX + 1))[0] == 413
    for fits in (
        delivery(),
        delivery({**good, "labels": {}, "annotations": {}}),
        delivery({**good, "startsAt": "0001-01-01T00:00:00Z"}),
        delivery({**good, "endsAt": "9999-12-31T23:59:59Z", "status": "resolved"}),
        delivery(
            {**good, "labels": {"alertname": "\u0000"}, "startsAt": "2026-05-20T12:00:00+02:00"}
        ),
        delivery(*(alert("Many", f"{n:x}", startsAt=START) for n in range(500))),
    ):
        assert send(site, teller, fits)[0] == 200, str(fits)[:200]


def test_what_alerts_say_is_text(site: PagesUnderTest, browser: Browser, teller: str) -> None:
    said = dict.fromkeys(("summary", "description", "runbook_url", "dashboard_url"), HOSTILE)
    said["autopsy_url"] = f"http://[{HOSTILE}"
    labels = {"alertname": HOSTILE, "severity": HOSTILE, "type": HOSTILE, HOSTILE: HOSTILE}
    one = alert("", "bad", labels=labels, annotations=said)
    assert send(site, teller, delivery(one))[0] == 200
    pages_ = [browser.get("/alerts")]
    send(
        site,
        teller,
        delivery(
            {**one, "status": "resolved", "endsAt": (BEGAN + timedelta(minutes=5)).isoformat()}
        ),
    )
    pages_.append(browser.get("/alerts"))
    for answer in pages_:
        assert answer.code == 200
        for live in LIVE:
            assert live not in answer.text


def test_history_is_paged(site: PagesUnderTest, browser: Browser, teller: str) -> None:
    many = [
        alert("Paged", f"b{n:03}", startsAt=(BEGAN - timedelta(minutes=n // 2)).isoformat())
        for n in range(60)
    ]
    assert send(site, teller, delivery(*many))[0] == 200
    seen: list[str] = []
    path = "/alerts"
    while path:
        text = browser.get(path).text
        seen += re.findall(r"<b>(\w+)</b> <small>critical", text.partition("<h2>History")[2])
        (path, *_) = [*re.findall(r'rel="next" href="([^"]+)"', text), ""]
        path = path.replace("&amp;", "&")
    assert seen.count("Paged") == 60
    for wrong in ("before=x", "before=2026-01-01", "before=9999-99-99&of=x"):
        assert browser.get(f"/alerts?{wrong}").code == 400


@pytest.fixture
def exported(site: PagesUnderTest, tmp_path: Path, teller: str) -> Path:
    """Alertmanager's file as the command writes it for these pages."""
    token = tmp_path / "supervisor.token"
    token.write_text(teller)
    done = site.cli(
        "rules", "export", str(tmp_path / "rules"), f"--web-url={site.base}",
        f"--web-token-file={token}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return tmp_path / "rules" / "alertmanager.yml"


def test_the_generated_file_names_the_pages_only_when_asked(
    site: PagesUnderTest, exported: Path, tmp_path: Path
) -> None:
    text = exported.read_text()
    assert f"{site.base.rstrip('/')}{PATH}" in text
    assert str(tmp_path / "supervisor.token") in text
    assert site.cli("rules", "export", str(tmp_path / "bare")).returncode == 0
    assert PATH not in (tmp_path / "bare" / "alertmanager.yml").read_text()
    amtool = shutil.which("amtool")
    if amtool is None:
        pytest.skip("amtool is not installed")
    checked = subprocess.run(
        [amtool, "check-config", str(exported)], capture_output=True, text=True, timeout=30
    )
    assert checked.returncode == 0, checked.stderr
    for labels, told in (
        (("alertname=Watchdog", "severity=none"), "pages,deadman"),
        (("alertname=TaskX", "severity=critical"), "pages,pager"),
        (("alertname=TaskX", "severity=info"), "pages,nobody"),
    ):
        routed = subprocess.run(
            [amtool, "config", "routes", "test", f"--config.file={exported}", *labels],
            capture_output=True, text=True, timeout=30,
        )  # fmt: skip
        assert routed.stdout.strip() == told, labels


@pytest.fixture
def alertmanager(exported: Path) -> Iterator[Alertmanager]:
    """A real one on that file, which tells the pages at once and repeats nothing."""
    config = exported.read_text()
    for wait in ("1s", "10s", "30s", "1m", "5m", "10m"):
        config = config.replace(f"group_wait: {wait}\n", "group_wait: 0s\n")
        config = config.replace(f"group_interval: {wait}\n", "group_interval: 1s\n")
    server = start_alertmanager(config)
    try:
        yield server
    finally:
        server.stop()


def test_a_real_alertmanager_tells_the_pages(browser: Browser, alertmanager: Alertmanager) -> None:
    def tell(ends_at: datetime | None = None) -> None:
        said = {
            "labels": {"alertname": "TaskReal", "severity": "warning", "queue": "mail"},
            "annotations": {"summary": "real <b>"},
            "startsAt": started.isoformat(),
            **({} if ends_at is None else {"endsAt": ends_at.isoformat()}),
        }
        body = json.dumps([said]).encode()
        request = urllib.request.Request(
            f"{alertmanager.url}/api/v2/alerts", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert answer.status == 200

    started = datetime.now(UTC) - timedelta(minutes=1)
    tell()
    eventually(lambda: "real &lt;b&gt;" in firing(browser), 20)
    assert "/tasks?state=PENDING&amp;state=RUNNING&amp;queue=mail" in firing(browser)
    tell(datetime.now(UTC))
    eventually(lambda: "real &lt;b&gt;" not in firing(browser), 20)
    text = fetch(f"{alertmanager.url}/metrics")[1]
    assert re.search(r'alertmanager_notifications_failed_total\{integration="webhook".*?\} 0', text)
