"""The pages of evidence: all of it on one page, groups that share a wait, bundles from files."""

from __future__ import annotations

import hashlib
import html
import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import Browser, PagesUnderTest, pages
from report_sample import HEADING, sections

from autopsy.bundle import write_bundle
from autopsy.section import Section, Status
from supervisor.model.access import Role
from supervisor.model.states import State
from supervisor.web.bundle import UPLOAD_MAX_BYTES

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}\x1b[2J\u202ex"
LIVE = ("<script>alert", "<img src=x", "\x1b", "\u202e", "49\\x1b")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesUnderTest]:
    with pages(tmp_path_factory.mktemp("evidence")) as made:
        made.add_user("root", Role.ADMIN, autopsies=True)
        made.add_user("vera", Role.OPERATOR)
        made.add_user("otto", Role.VIEWER, autopsies=True)
        yield made


def signed_in(site: PagesUnderTest, name: str) -> Browser:
    browser = site.browser()
    assert browser.sign_in(name).heading == "Overview"
    return browser


@pytest.fixture(scope="module")
def root(site: PagesUnderTest) -> Browser:
    return signed_in(site, "root")


def submit(site: PagesUnderTest, type: str) -> str:
    return site.app.submit({"type": type, "params": {}}).task_id


def diagnosed(code: str, *evidence: str) -> str:
    return json.dumps([{"code": code, "confidence": 0.9, "evidence": list(evidence)}])


def zipped(root: Path, *parts: Section) -> bytes:
    file = root / "made.zip"
    write_bundle(file, HEADING, list(parts) or sections(), "as text", is_clean=True)
    return file.read_bytes()


def brought(browser: Browser, content: bytes, name: str = "a.zip") -> tuple[int, str, str]:
    """Return code, heading and problem of what is answered to a file."""
    token = browser.get("/autopsies/open").token()
    answer = browser.upload("/autopsies/open", token, "bundle", name, content)
    for live in LIVE:
        assert live not in answer.text
    return answer.code, answer.heading, answer.flash


def test_all_evidence_is_on_the_page_and_what_is_missing_says_why(
    site: PagesUnderTest, root: Browser
) -> None:
    task_id = submit(site, "whole")
    site.add_autopsy(task_id, "whole")
    text = root.get("/autopsies/whole").text
    found = re.findall(r'<details class="piece" id="part-(\w+)"', text)
    assert {"facts", "waits", "stacks", "memory", "sockets", "logs", "output"} <= set(found)
    assert "What to do" in text
    assert 'role="img" aria-label="5 waiters, locks and holders; the same in words below"' in text
    gone = Section(name="stacks", status=Status.ERROR, reason="py-spy was not found", ms=1.0)
    site.add_autopsy(task_id, "partial", parts=[gone])
    text = root.get("/autopsies/partial").text
    (title,) = re.findall(r'id="part-stacks">\s*<summary><h3>(.*?)</h3>', text)
    assert title == '<span lang="en">Stacks</span> <small>nothing here</small>'
    assert "stacks: error, py-spy was not found" in text
    assert "ring: not collected in this bundle" in text


def test_a_file_that_vanished_says_where_it_was(site: PagesUnderTest, root: Browser) -> None:
    record = site.add_autopsy(None, "vanishes")
    Path(record.path).unlink()
    page = root.get("/autopsies/vanishes")
    assert (page.code, page.heading) == (200, "deadlock.in_process")
    assert "The bundle is not on this host." in page.flash
    Path(record.path).write_bytes(b"PK\x03\x04 torn")
    assert "cannot be read" in root.get("/autopsies/vanishes").flash


def test_the_list_is_filtered_by_diagnosis_node_and_time(
    site: PagesUnderTest, root: Browser
) -> None:
    file = Path(site.add_autopsy(None, "f0").path)
    site.add_autopsy(None, "f1", path=file, diagnosis="busy.python", node_id="node_f")
    for query, expected in (
        ("diagnosis=busy.python", {"f1"}),
        ("node=node_f", {"f1"}),
        ("diagnosis=busy.python&node=node_a", set()),
        ("until=2020-01-01T00:00", set()),
        ("since=2020-01-01T00:00&node=node_f", {"f1"}),
    ):
        found = root.get(f"/autopsies?{query}").text
        assert set(re.findall(r'href="/autopsies/(f\d)"', found)) == expected, query
    assert root.get("/autopsies?since=yesterday").code == 400


def test_attempts_with_the_same_wait_are_one_group_and_acted_on_together(
    site: PagesUnderTest, root: Browser
) -> None:
    ids = [submit(site, f"bank{n % 2}") for n in range(4)]
    for n, task_id in enumerate(ids):
        wait = f"thread_locks: thread {n} (T-{n}) waits for the lock `Bank._lock`, which X holds"
        told = diagnosed("blocked.db_lock", wait, f"stacks: thread {n} (T-{n}): pay (/b.py:3)")
        site.add_autopsy(task_id, f"g{n}", diagnosis_json=told)
    rows = re.findall(r"<tr>.*?</tr>", root.get("/autopsies/groups").text, re.DOTALL)
    (row,) = (one for one in rows if "Bank._lock" in one)
    assert '<td class="number"><b>4</b></td>' in row
    assert "blocked.db_lock</a> waits for the lock Bank._lock <small>in pay (/b.py:3)" in row
    (key,) = re.findall(r"/autopsies/groups/([0-9a-f]{16})", row)
    group = root.get(f"/autopsies/groups/{key}")
    assert group.heading == "blocked.db_lock 4 attempts"
    seen = re.findall(r'name="task" value="([^"]+)"', group.text)
    assert sorted(one.split(".")[0] for one in seen) == sorted(ids)
    assert f"/autopsies/groups/{key}" in root.get("/autopsies/g1").text

    site.client.cancel(ids[0], by="tom", reason="meanwhile")
    chosen = [("task", one) for one in seen] + [("verb", "cancel"), ("reason", "bank is down")]
    done = root.post_all(f"/autopsies/groups/{key}", [*chosen, ("csrf_token", group.token())])
    assert "Cancel: 3 canceled" in done.text
    assert f"Left alone, since they changed meanwhile: …{ids[0][-8:]} CANCELED" in done.text
    assert site.client.view(ids[1]).state is State.CANCELED
    assert site.client.history(ids[1])[-1].operator == "root"
    for fields in (
        [("task", "x"), ("verb", "cancel"), ("reason", "y")],
        [("task", seen[0]), ("verb", "kill"), ("reason", "y")],
    ):
        assert (
            root.post_all(f"/autopsies/groups/{key}", [*fields, ("csrf_token", group.token())]).code
            == 400
        )
    asked = [("verb", "cancel"), ("csrf_token", group.token())]
    blank = root.post_all(f"/autopsies/groups/{key}", asked)
    assert blank.flash.startswith("Nothing was done")
    otto = signed_in(site, "otto")
    refused = otto.post_all(
        f"/autopsies/groups/{key}", [*chosen, ("csrf_token", otto.get("/").token())]
    )
    assert refused.code == 403
    assert root.get(f"/autopsies/groups/{'0' * 16}").code == 404


def test_a_bundle_is_opened_from_a_file_and_nothing_of_it_is_kept(
    site: PagesUnderTest, root: Browser, tmp_path: Path
) -> None:
    content = zipped(tmp_path)
    before = set(site.root.rglob("*"))
    token = root.get("/autopsies/open").token()
    answer = root.upload("/autopsies/open", token, "bundle", "from Bob.zip", content)
    assert (answer.code, answer.heading) == (200, "deadlock.in_process")
    for part in ("part-stacks", "part-waits", "no progress for 300 s", "from Bob.zip"):
        assert part in answer.text
    assert set(site.root.rglob("*")) == before
    assert site.notes()[-1] == ("root", "bundle_opened", "from Bob.zip")


def test_what_is_no_bundle_is_refused_and_noted(
    site: PagesUnderTest, root: Browser, tmp_path: Path
) -> None:
    good = zipped(tmp_path)

    def changed(name: str, data: bytes, kind: int = zipfile.ZIP_DEFLATED) -> bytes:
        made = io.BytesIO(good)
        with zipfile.ZipFile(made, "a") as archive:
            archive.writestr(name, data, kind)
        return made.getvalue()

    for content, why in (
        (b"hello", "damaged or not a bundle"),
        (good[:-200], "damaged or not a bundle"),
        (good.replace(b"manifest.json", b"nanifest.json"), "not those of a bundle"),
        (changed("bomb", b"\0" * (UPLOAD_MAX_BYTES + 1)), "unpacks to 10 MiB"),
        (changed("../../etc/passwd", b"x"), "a file outside of itself"),
        (changed("/etc/passwd", b"x"), "a file outside of itself"),
        (changed("a\\..\\b", b"x"), "a file outside of itself"),
        (changed("lzma", b"x", zipfile.ZIP_LZMA), "packed or encrypted"),
        (flipped(good), "damaged or not a bundle"),
        (twice(good), "two of its sections are one file"),
        (b"", "damaged or not a bundle"),
    ):
        code, heading, problem = brought(root, content)
        assert (code, heading) == (422, "Open a bundle from a file")
        assert why in problem, problem
        assert site.notes()[-1][1] == "bundle_refused"


def flipped(content: bytes) -> bytes:
    """Change a byte in the middle of the first section's data."""
    at = content.index(b"sections/") + 120
    return content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]


def twice(content: bytes) -> bytes:
    """Let the manifest name one large section many times."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w") as new:
        manifest = json.loads(old.read("manifest.json"))
        first = manifest["sections"][0]
        manifest["sections"] = [{**first, "name": f"s{n}"} for n in range(100)]
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, json.dumps(manifest) if name == "manifest.json" else data)
    return made.getvalue()


def test_what_is_too_large_or_not_allowed_is_refused_and_noted(
    site: PagesUnderTest, root: Browser, tmp_path: Path
) -> None:
    good = zipped(tmp_path)
    token = root.get("/autopsies/open").token()
    huge = root.upload(
        "/autopsies/open", token, "bundle", "a.zip", b"x" * (UPLOAD_MAX_BYTES + 99999)
    )
    assert huge.code == 413
    assert root.upload("/autopsies/open", None, "bundle", "a.zip", good).code == 400
    assert root.upload("/autopsies/open", token, "other", "a.zip", good).code == 400
    vera = signed_in(site, "vera")
    mine = vera.get("/").token()
    assert vera.get("/autopsies/open").code == 403
    assert vera.upload("/autopsies/open", mine, "bundle", "a.zip", good).code in (403, 413)
    assert site.browser().upload("/autopsies/open", None, "bundle", "a.zip", good).code == 400
    told = [note for _by, reason, note in site.notes() if reason == "request_refused"]
    for kind in ("too large", "no right", "from another site"):
        assert any(kind in (note or "") for note in told), told


def test_what_a_bundle_holds_is_text_wherever_it_comes_from(
    site: PagesUnderTest, root: Browser, tmp_path: Path
) -> None:
    payloads = {
        "output": {"text": HOSTILE},
        "logs": {"records": [{"text": HOSTILE, "logger": HOSTILE, "level": 20, "created": 1}]},
        "stacks": {
            "stacks": [[{"function": HOSTILE, "file": HOSTILE, "line": 1, "source": HOSTILE}]],
            "samples": [{"at_ms": 1.0, "method": HOSTILE, "reason": HOSTILE, "threads": [
                {"tid": 1, "name": HOSTILE, "owns_gil": False, "stack": 0}]}],
        },
        "thread_locks": {
            "locks": [{"id": "1", "kind": HOSTILE, "name": HOSTILE, "locked": True,
                       "holder_tid": 2, "holder_name": HOSTILE, "holder_alive": True}],
            "waits": [{"tid": 1, "thread": HOSTILE, "for": "lock", "lock": "1"}],
        },
        "facts": {"task_id": HOSTILE, "attempt": HOSTILE, "type": HOSTILE},
    }  # fmt: skip
    parts = [
        Section(name=name, status=Status.OK, reason=HOSTILE, ms=1.0, payload=payload)
        for name, payload in payloads.items()
    ]
    code, heading, _ = brought(
        root, zipped(tmp_path, *parts), f"{HOSTILE[:40]}.zip".replace('"', "")
    )
    assert (code, heading) == (200, "deadlock.in_process")
    task_id = submit(site, "hostile")
    told = diagnosed(HOSTILE, f"stacks: {HOSTILE}: {HOSTILE} (/x.py:1)", HOSTILE)
    site.add_autopsy(task_id, "hostile", verdict=HOSTILE[:40], parts=parts, diagnosis_json=told)
    (group,) = re.findall(r"/autopsies/groups/[0-9a-f]{16}", root.get("/autopsies/hostile").text)
    for path in ("/autopsies", "/autopsies/hostile", "/autopsies/groups", group):
        answer = root.get(path)
        assert answer.code == 200, path
        for live in LIVE:
            assert live not in answer.text, path
    assert html.escape("<script>alert(1)") in root.get("/autopsies/hostile").text
    policy = root.get("/autopsies/hostile").headers["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy


def test_sections_of_any_shape_show_what_can_be_shown(root: Browser, tmp_path: Path) -> None:
    odd: list[object] = [None, 1, "x", [], [[]], {"a": []}, [{"tid": []}], {"cut": 3}]
    names = ("stacks", "thread_locks", "asyncio", "ring", "memory", "sockets", "logs", "facts")
    keys = (
        "stacks",
        "samples",
        "waits",
        "locks",
        "tasks",
        "threads",
        "sockets",
        "records",
        "looks",
    )
    for shape in odd:
        parts = [
            Section(name=name, status=Status.OK, ms=1.0, payload=dict.fromkeys(keys, shape))
            for name in names
        ]
        assert brought(root, zipped(tmp_path, *parts))[0] == 200, shape


def test_a_deep_section_is_no_bundle(root: Browser, tmp_path: Path) -> None:
    good = zipped(tmp_path)
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(good)) as old, zipfile.ZipFile(made, "w") as new:
        manifest = json.loads(old.read("manifest.json"))
        deep = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
        first = manifest["sections"][0]
        first["sha256"] = hashlib.sha256(deep).hexdigest()
        for name in old.namelist():
            data = deep if name == first["file"] else old.read(name)
            new.writestr(name, json.dumps(manifest) if name == "manifest.json" else data)
    assert brought(root, made.getvalue())[0] == 422
