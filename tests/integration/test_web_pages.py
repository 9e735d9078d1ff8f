"""The pages show what the store holds, act through it, and run nothing of what tasks wrote."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Start, eventually
from pages import Browser, PagesUnderTest, pages

from autopsy.section import Section, Status
from supervisor.model.states import State
from supervisor.store import TaskFilter

#: What would run, break out of its place, or move a line, if a page took it for markup.
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}\x1b[2J\u202ex"
INERT = "&lt;script&gt;alert(1)&lt;/script&gt;"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesUnderTest]:
    with pages(tmp_path_factory.mktemp("pages")) as made:
        yield made


@pytest.fixture(scope="module")
def browser(site: PagesUnderTest) -> Browser:
    return site.opened()


def submit(site: PagesUnderTest, type: str = "greet", **spec: object) -> str:
    return site.app.submit({"type": type, "params": {}, **spec}).task_id


def ids_on(text: str) -> list[str]:
    return re.findall(r'title="(task_[0-9a-f]{32})"', text)


def test_tasks_are_listed_filtered_and_paged(site: PagesUnderTest, browser: Browser) -> None:
    made = [submit(site, "paged", queue=f"q{n % 2}", tags=("odd",) * (n % 2)) for n in range(60)]
    first = browser.get("/tasks?type=paged")
    assert ids_on(first.text) == made[:-51:-1]
    (older,) = re.findall(r'rel="next" href="([^"]+)"', first.text)
    second = browser.get(older.replace("&amp;", "&"))
    assert ids_on(second.text) == made[9::-1]
    assert 'rel="next"' not in second.text
    odd = browser.get("/tasks?type=paged&queue=q1&tag=odd&state=PENDING&state=RUNNING")
    assert ids_on(odd.text) == made[59::-2]
    none = browser.get("/tasks?type=paged&state=SUCCESS").text
    assert ("No task is like this." in none, "not in params" in none) == (True, False)
    remembered = browser.get("/tasks?q=no+disk").text
    assert "not in params" in remembered
    assert '<a href="/tasks?q=message:no+message:disk">' in remembered
    for wrong in ("state=DONE", "before=../x", "before=task_1"):
        assert browser.get(f"/tasks?{wrong}").code == 400


def test_a_task_is_found_by_its_beginning_or_told_to_be_missing(
    site: PagesUnderTest, browser: Browser
) -> None:
    task_id = submit(site, task_id=f"task_{'f' * 32}")
    assert browser.get(f"/tasks/{'f' * 8}").path == f"tasks/{task_id}"
    for wrong in ("task_0", "e" * 32, "..%2f..%2fetc%2fpasswd", "a" * 5000):
        assert browser.get(f"/tasks/{wrong}").code == 404
    assert browser.get("/tasks/%00").code == 400


def test_acts_answer_on_the_page_with_the_new_truth(site: PagesUnderTest, browser: Browser) -> None:
    task_id = submit(site)
    blank = browser.act(task_id, "cancel", " ")
    assert (blank.heading, blank.flash) == (
        "greet PENDING", "Nothing was done: say why, it stands in the audit trail.",
    )  # fmt: skip
    done = browser.act(task_id, "cancel", "wrong month")
    assert (done.heading, done.flash) == ("greet CANCELED", "Cancel: canceled")
    assert "wrong month" in done.text
    page = browser.get(f"/tasks/{task_id}")
    assert page.flash == ""
    assert re.findall(r'formaction="[^"]*/(\w+)"', page.text) == ["resubmit"]
    again = browser.post(f"/tasks/{task_id}/cancel", page.token(), reason="again")
    assert again.flash.startswith("Cancel: already ended (too late: it ended CANCELED at ")
    absent = browser.post(f"/tasks/{task_id[:20]}/cancel", page.token(), reason="x")
    assert (absent.code, "may be in the archive" in absent.text) == (404, True)


def test_a_running_task_is_canceled_until_verified_gone_and_run_again(
    start_node: Start, tmp_path: Path
) -> None:
    node = start_node()
    with pages(tmp_path, start=False) as site:
        site.env["SUPERVISOR_STORE"] = node.url
        site.env["XDG_RUNTIME_DIR"] = node.env["XDG_RUNTIME_DIR"]
        browser = site.start().opened()
        running = node.submit("wait")
        node.started(running)
        assert "RUNNING" in browser.get(f"/tasks/{running.task_id}").heading
        asked = browser.act(running.task_id, "cancel", "not needed")
        assert asked.flash == "Cancel: requested"
        assert running.wait(20).state is State.CANCELED
        page = browser.get(f"/tasks/{running.task_id}")
        steps = re.findall(r"<li><b>([a-z ]+)</b>", page.text)
        assert steps == ["requested", "delivered", "acknowledged", "stopped", "verified gone"]
        assert 'class="to-come"' not in page.text
        failed = node.submit("boom", spec={"max_retries": 0})
        failed.wait(20)
        assert browser.act(failed.task_id, "rerun", "again").flash == "Run again: rerun"
        eventually(lambda: failed.view().attempt == 2 and failed.state() is State.FAILED, 10)


def test_the_newest_autopsy_of_an_alert_is_found_read_and_downloaded(
    site: PagesUnderTest, browser: Browser
) -> None:
    slow, other = submit(site, "slow"), submit(site, "other")
    site.add_autopsy(slow, "a1", verdict="stalled")
    record = site.add_autopsy(slow, "a2", verdict="timeout")
    site.add_autopsy(other, "a3", verdict="timeout")
    for query, autopsy_id in (
        ("type=slow", "a2"), ("type=slow&verdict=stalled", "a1"),
        ("verdict=timeout", "a3"), ("", "a3"),
    ):  # fmt: skip
        assert browser.get(f"/autopsies/latest?{query}").path == f"autopsies/{autopsy_id}"
    none = browser.get("/autopsies/latest?type=slow&verdict=memory")
    assert (none.code, none.heading) == (404, "No autopsy of type slow with the verdict memory yet")
    assert '<a href="/tasks?state=RUNNING&amp;type=slow">What runs now</a>' in none.text
    page = browser.get("/autopsies/a2")
    assert page.heading == "deadlock.in_process"
    for part in ("95% sure", "Account._lock", "/autopsies/a2/bundle", f"/tasks/{slow}"):
        assert part in page.text
    report = browser.get("/autopsies/a2/report")
    assert report.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none';")
    assert "deadlock.in_process" in report.text
    file = browser.get("/autopsies/a2/bundle")
    assert file.body == Path(record.path).read_bytes()
    assert file.headers["Content-Disposition"] == "attachment; filename=a2.zip"
    assert file.headers["Content-Type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(file.body)) as whole:
        assert whole.testzip() is None
    last = site.client.history(slow)[-1]
    assert (last.reason, last.note) == ("autopsy_downloaded", "a2")
    assert "a2" in browser.get(f"/tasks/{slow}").text


def test_autopsies_are_paged_and_filtered(site: PagesUnderTest, browser: Browser) -> None:
    file = Path(site.add_autopsy(None, "same").path)
    for n in range(52):
        site.add_autopsy(None, f"p{n:02}", verdict="paged", path=file)
    listed = browser.get("/autopsies?verdict=paged")
    found = re.findall(r'href="/autopsies/(p\d\d)"', listed.text)
    assert found == [f"p{n:02}" for n in range(51, 1, -1)]
    (older,) = re.findall(r'rel="next" href="([^"]+)"', listed.text)
    rest = browser.get(older.replace("&amp;", "&"))
    assert re.findall(r'href="/autopsies/(p\d\d)"', rest.text) == ["p01", "p00"]


def test_no_file_but_a_bundle_of_the_store_is_sent(
    site: PagesUnderTest, browser: Browser, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("not for you")
    site.add_autopsy(None, "no-bundle", path=secret)
    site.add_autopsy(None, "gone", path=tmp_path / "gone.zip")
    site.add_autopsy(None, "failed", path=Path(), status="failed")
    site.add_autopsy(None, "a-folder", path=tmp_path)
    for autopsy_id in ("no-bundle", "gone", "failed", "a-folder"):
        for part in ("bundle", "report"):
            refused = browser.get(f"/autopsies/{autopsy_id}/{part}")
            assert refused.code == 404
            assert "not for you" not in refused.text
    page = browser.get("/autopsies/gone")
    assert "The bundle is not on this host. It was written by node node_a" in page.text
    for path in (
        "..%2f..%2fetc%2fpasswd", "..", "%2e%2e/%2e%2e/etc/passwd", "x/../../secret", "%00",
        "a" * 99,
    ):  # fmt: skip
        for part in ("", "/bundle", "/report"):
            assert browser.get(f"/autopsies/{path}{part}").code in (400, 404)
    assert browser.get("/static/..%2fsite.py").code == 404


def test_what_tasks_wrote_is_text_on_every_page(site: PagesUnderTest, browser: Browser) -> None:
    fields = {
        "submitted_by": HOSTILE, "dedup_key": HOSTILE, "tags": (HOSTILE[:64],),
        "params": {HOSTILE: HOSTILE}, "task_id": f"task_{'d' * 32}",
    }  # fmt: skip
    task_id = site.app.submit({"type": "hostile", **fields}).task_id
    site.client.cancel(task_id, by=HOSTILE, reason=HOSTILE)
    bad = Section(
        name="output", status=Status.OK, reason=HOSTILE, ms=1.0, payload={"text": HOSTILE}
    )
    site.add_autopsy(
        task_id, "hostile", verdict=HOSTILE[:40], diagnosis=HOSTILE[:40], parts=[bad],
        diagnosis_json=f'[{{"code": {json.dumps(HOSTILE)}, "confidence": "x", "evidence": '
        f"[{json.dumps(HOSTILE)}]}}]",
    )  # fmt: skip
    site.client.pause("default", by=HOSTILE, reason=HOSTILE)
    try:
        for path in (
            "/", "/tasks", f"/tasks/{task_id}", "/autopsies", "/autopsies/hostile",
            "/autopsies/hostile/report",
        ):  # fmt: skip
            answer = browser.get(path)
            assert answer.code == 200, path
            for live in ("<script>alert", "<img src=x", "\x1b", "\u202e", "49\\x1b"):
                assert live not in answer.text, path
        assert INERT in browser.get(f"/tasks/{task_id}").text
    finally:
        site.client.resume("default", by="tester", reason="over")
    for path in (
        "/tasks/{}",
        "/tasks?type={}",
        "/tasks?state={}",
        "/autopsies/latest?type={}",
        "/{}",
    ):
        answer = browser.get(path.format("%3Cscript%3Ealert(1)%3C%2Fscript%3E"))
        assert "<script>" not in answer.text


def test_every_answer_carries_what_keeps_scripts_and_frames_out(
    site: PagesUnderTest, browser: Browser
) -> None:
    for path in (
        "/",
        "/tasks",
        "/nothing",
        "/healthz",
        "/metrics",
        "/sign-in",
        "/static/style.css",
    ):
        headers = browser.get(path).headers
        assert headers["Content-Security-Policy"] == (
            "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; "
            "img-src 'self'; form-action 'self'; frame-src 'self'; base-uri 'none'; "
            "frame-ancestors 'none'"
        )
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "same-origin"
        assert "Server" not in headers
    text = browser.get("/").text
    tags = " ".join(re.findall(r"<[a-z][^>]*>", text))  # what others wrote is on the page as text
    assert not re.search(r"\sstyle=|\son\w+=|<style|hx-on", tags)
    assert re.findall(r"<script[^>]*>([^<]*)</script>", text) == [""] * 4
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))
    assert set(re.findall(r'(?:href|src)="(https?:)?//', text)) == set()


def test_a_file_is_kept_for_ever_only_by_who_asked_for_its_content(browser: Browser) -> None:
    loaded = re.findall(r'(?:href|src)="(/static/[^"]+)"', browser.get("/").text)
    assert len(loaded) == 7
    for address in loaded:
        answer = browser.get(address)
        assert answer.code == 200
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        for other in ("", "?v=0123456789abcdef", "?v="):
            again = browser.get(address.partition("?")[0] + other)
            assert (again.code, again.headers["Cache-Control"]) == (200, "no-cache")
    for outside in ("/static/../site.py", "/static/%2e%2e/site.py", "/static//etc/passwd"):
        assert browser.get(outside).code == 404


def test_the_numbers_of_the_overview_are_those_of_the_metrics(tmp_path: Path) -> None:
    with pages(tmp_path) as site:
        browser = site.opened()
        empty = browser.get("/").text
        figures = re.findall(r'<p class="value">(.*?)</p>', empty)
        assert figures == ["–", "0", "0", "–", "–", "–", "–"]
        assert "No node runs: no task would run." in empty
        submit(site)
        site.client.pause("default", by="olga", reason="the bank is down")
        first = "No node runs: 1 task is due and waits."
        text = eventually(lambda: first in (seen := browser.get("/").text) and seen)
        assert re.findall(r'<p class="value">(.*?)</p>', text)[2] == "1"
        assert "1 tasks are due and wait" not in text
        assert "queue default is paused by olga" in text
        counted = browser.get("/metrics").text
        assert re.search(
            r'supervisor_http_requests_total\{code="200",method="GET",route="/"\} \d', counted
        )
        assert len(site.client.reader.tasks(TaskFilter()).tasks) == 1
