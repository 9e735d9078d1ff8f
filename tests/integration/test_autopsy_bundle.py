"""A bundle comes back as it was written, or is refused; directories of them are pruned."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autopsy.bundle import (
    SECTION_CAP_BYTES,
    Heading,
    encode,
    read_bundle,
    write_bundle,
)
from autopsy.cause import Diagnosis
from autopsy.errors import BundleNotWritten, BundleUnreadable
from autopsy.page import page_of, write_page
from autopsy.report import as_sections, render_text
from autopsy.retention import list_bundles, prune
from autopsy.section import Section, Status

NAMES = st.text("abcdefgh_", min_size=1, max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("xyz é\n", max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
SECTIONS = st.lists(
    st.builds(
        Section,
        name=NAMES,
        status=st.sampled_from(Status),
        reason=st.text("xyz", max_size=20),
        ms=st.floats(0, 1e6),
        payload=st.dictionaries(NAMES, JSON, max_size=4),
    ),
    max_size=5,
    unique_by=lambda section: section.name,
)


def heading(**changes: Any) -> Heading:
    values: dict[str, Any] = {
        "pid": 7,
        "start_ticks": 99,
        "why": "timeout",
        "host": "h",
        "python": "3.11.7",
        "captured_at": "2026-01-01T00:00:00+00:00",
        "budget_s": 10.0,
        "duration_ms": 270.5,
        "status": "complete",
        "tools": {"autopsy": "1"},
        "diagnosis": (Diagnosis("blocked.sleep", 0.8, ("process: x", "stacks: y")),),
    }
    return Heading(**{**values, **changes})


@given(sections=SECTIONS)
@settings(max_examples=40, deadline=None)
def test_a_bundle_comes_back_as_it_was_written(sections: list[Section]) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "a.zip"
        size = write_bundle(path, heading(), sections, "the report\n")
        bundle = read_bundle(path)
        assert path.stat().st_size == size
        assert path.stat().st_mode & 0o777 == 0o600
        assert os.listdir(directory) == ["a.zip"]
    assert bundle.heading == heading()
    assert bundle.report == "the report\n"
    assert as_sections(bundle.entries, bundle.sections) == sections


def test_secrets_do_not_reach_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    secret = {"password": "c4n4ry", "text": "url postgres://u:c4n4ry@h/d"}
    sections = [Section("facts", Status.OK, "token=c4n4ry", payload=secret)]
    evidence = Diagnosis("unknown", 0.0, ("facts: secret=c4n4ry",))
    why = "password: c4n4ry"
    write_bundle(path, heading(why=why, diagnosis=(evidence,)), sections, "api_key=c4n4ry")
    with zipfile.ZipFile(path) as archive:
        contents = b"".join(archive.read(name) for name in archive.namelist())
    assert b"c4n4ry" not in contents


def test_a_section_over_the_cap_is_cut_and_says_so(tmp_path: Path) -> None:
    payload = {"rows": [{"tid": number, "text": "x" * 100} for number in range(20000)]}
    encoded, cut = encode(payload)
    assert cut
    assert len(encoded) <= SECTION_CAP_BYTES
    write_bundle(tmp_path / "a.zip", heading(), [Section("big", Status.OK, payload=payload)], "")
    bundle = read_bundle(tmp_path / "a.zip")
    assert bundle.entries[0].cut
    assert bundle.sections["big"]["rows"][-1] == {"cut": 18000}
    assert bundle.sections["big"]["rows"][0] == {"tid": 0, "text": "x" * 100}
    assert "big" in render_text(bundle.heading, as_sections(bundle.entries, bundle.sections))


@pytest.mark.parametrize("kept_ratio", [0.0, 0.3, 0.7, 0.99])
def test_a_truncated_bundle_is_refused(tmp_path: Path, kept_ratio: float) -> None:
    path = tmp_path / "a.zip"
    write_bundle(path, heading(), [Section("x", Status.OK, payload={"a": 1})], "r")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * kept_ratio)])
    with pytest.raises(BundleUnreadable) as caught:
        read_bundle(path)
    assert str(path) in caught.value.message
    assert caught.value.remedy


def test_no_flipped_byte_goes_unnoticed(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    payload = {"text": "".join(chr(97 + number * 7 % 26) for number in range(500))}
    write_bundle(path, heading(), [Section("x", Status.OK, payload=payload)], "r")
    original, whole = read_bundle(path), path.read_bytes()
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0xFF]) + whole[position + 1 :])
        try:
            assert read_bundle(path) == original  # a byte nobody reads, such as a timestamp
        except BundleUnreadable:
            continue


def test_a_changed_section_is_refused_by_its_checksum(tmp_path: Path) -> None:
    path, forged = tmp_path / "a.zip", tmp_path / "b.zip"
    write_bundle(path, heading(), [Section("x", Status.OK, payload={"a": 1})], "r")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(forged, "w") as new:
        for name in old.namelist():
            changed = b'{"a":2}' if name == "sections/x.json" else old.read(name)
            new.writestr(name, changed)
    with pytest.raises(BundleUnreadable, match="checksum of section x"):
        read_bundle(forged)


def test_a_directory_that_is_missing_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(BundleNotWritten) as caught:
        write_bundle(tmp_path / "no" / "a.zip", heading(), [], "")
    assert caught.value.remedy


def file_of_age(path: Path, age_days: float, first: bytes = b"sections/facts.json") -> Path:
    """Write 100 bytes that begin as a zip file with this first member does."""
    path.write_bytes((b"PK\x03\x04" + bytes(26) + first).ljust(100))
    at = datetime.now(UTC).timestamp() - age_days * 86400
    os.utime(path, (at, at))
    return path


def test_old_and_surplus_bundles_are_pruned_and_unfinished_ones_are_listed(tmp_path: Path) -> None:
    new = file_of_age(tmp_path / "new.zip", 0)
    unfinished = file_of_age(tmp_path / "cut.zip.partial", 1)
    surplus = file_of_age(tmp_path / "surplus.zip", 2)
    old = file_of_age(tmp_path / "old.zip", 40)
    other = file_of_age(tmp_path / "notes.txt", 400)
    listed = list_bundles(tmp_path)
    assert [(one.path, one.complete) for one in listed] == [
        (new, True),
        (unfinished, False),
        (surplus, True),
        (old, True),
    ]
    pruned = prune(tmp_path, keep_days=30, keep_bytes=250)
    assert [one.path for one in pruned.kept] == [new, unfinished]
    assert [one.path for one in pruned.removed] == [surplus, old]
    assert pruned.freed_bytes == 200
    assert sorted(tmp_path.iterdir()) == sorted([new, unfinished, other])


def test_a_zip_file_of_somebody_else_is_not_pruned(tmp_path: Path) -> None:
    theirs = file_of_age(tmp_path / "holiday.zip", 400, first=b"beach.jpg")
    ours = tmp_path / "ours.zip"
    write_bundle(ours, heading(), [Section("facts", Status.OK, payload={"pid": 1})], "text")
    pruned = prune(tmp_path, keep_days=0, keep_bytes=0)
    assert ([one.path for one in pruned.removed], pruned.kept) == ([ours], ())
    assert list(tmp_path.iterdir()) == [theirs]


def test_a_directory_that_does_not_exist_holds_no_bundles(tmp_path: Path) -> None:
    assert list_bundles(tmp_path / "no") == []


def large(name: str, rows: int = 8000) -> Section:
    return Section(
        name, Status.OK, payload={"rows": [{"n": n, "t": "y" * 60} for n in range(rows)]}
    )


def test_too_much_in_all_is_cut_where_it_is_worth_least(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    given_sections = [large("stacks"), large("fds"), large("heap"), Section("facts", Status.OK)]
    write_bundle(path, heading(), given_sections, "r", "<p>", max_bytes=1_200_000)
    with zipfile.ZipFile(path) as archive:
        contents = [one for one in archive.infolist() if one.filename != "manifest.json"]
    assert sum(one.file_size for one in contents) <= 1_200_000
    bundle = read_bundle(path)
    found = {one.name: (one.cut, one.reason) for one in bundle.entries}
    assert found == {
        "stacks": (False, ""),
        "fds": (True, "cut to 256 KiB, since the whole was too large"),
        "heap": (True, "cut to 256 KiB, since the whole was too large"),
        "facts": (False, ""),
    }
    assert len(bundle.sections["stacks"]["rows"]) == 8000
    assert bundle.sections["fds"]["rows"][-1] == {"cut": 6000}


@pytest.mark.parametrize("max_bytes", [0, 5_000, 60_000, 400_000])
def test_a_bundle_of_any_size_can_be_read(tmp_path: Path, max_bytes: int) -> None:
    names = ["stacks", "fds", "heap", "logs", "odd"]
    write_bundle(tmp_path / "a.zip", heading(), [large(one) for one in names], "r", "", max_bytes)
    bundle = read_bundle(tmp_path / "a.zip")
    assert list(bundle.sections) == names
    total = sum(one.bytes for one in bundle.entries)
    assert total <= max(max_bytes, len(names) * 2048)


def test_a_bundle_has_the_page_and_the_checksums_of_all_its_files(tmp_path: Path) -> None:
    path, forged = tmp_path / "a.zip", tmp_path / "b.zip"
    write_bundle(path, heading(), [Section("x", Status.OK)], "the report", "<p>the page</p>")
    bundle = read_bundle(path)
    assert (bundle.report, bundle.page) == ("the report", "<p>the page</p>")
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        listed = {*manifest["files"], *(one["file"] for one in manifest["sections"])}
        assert {*archive.namelist()} == {*listed, "manifest.json"}
        versions = {"schema": int, "autopsy": str, "redaction": int, "rules": int}
        assert {name: type(manifest[name]) for name in versions} == versions
    for spoilt in ("report.txt", "report.html"):
        with zipfile.ZipFile(path) as old, zipfile.ZipFile(forged, "w") as new:
            for name in old.namelist():
                new.writestr(name, b"forged" if name == spoilt else old.read(name))
        with pytest.raises(BundleUnreadable, match=f"checksum of {spoilt}"):
            read_bundle(forged)


def test_a_bundle_from_before_there_were_pages_has_one_made(tmp_path: Path) -> None:
    path, older = tmp_path / "a.zip", tmp_path / "b.zip"
    write_bundle(path, heading(), [Section("x", Status.OK)], "r")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(older, "w") as new:
        for name in old.namelist():
            content = json.loads(old.read(name)) if name == "manifest.json" else None
            if content:
                del content["files"], content["rules"]
            new.writestr(name, json.dumps(content) if content else old.read(name))
    bundle = read_bundle(older)
    assert bundle.page == ""
    assert "blocked.sleep" in page_of(bundle)
    write_page(str(tmp_path / "p.html"), page_of(bundle))
    assert (tmp_path / "p.html").stat().st_mode & 0o777 == 0o600
    with pytest.raises(BundleNotWritten):
        write_page(str(tmp_path / "no" / "p.html"), "x")


def forged_from(path: Path, forged: Path, **replaced: bytes) -> Path:
    """Copy a bundle with other contents of some files, checksums put right."""
    names = {name.replace("_", "."): content for name, content in replaced.items()}
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(forged, "w", zipfile.ZIP_DEFLATED) as new:
        manifest = json.loads(old.read("manifest.json"))
        for name in old.namelist():
            content = names.get(name, old.read(name))
            if name in manifest["files"]:
                manifest["files"][name]["sha256"] = hashlib.sha256(content).hexdigest()
            if name != "manifest.json":
                new.writestr(name, content)
        new.writestr("manifest.json", json.dumps(manifest))
    return forged


def test_the_page_of_a_stranger_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    write_bundle(path, heading(), [Section("x", Status.OK)], "r", "<p>")
    bundle = read_bundle(forged_from(path, tmp_path / "b.zip", report_html=b"<script>1</script>"))
    assert "<script>" not in page_of(bundle)
    odd = replace(bundle, heading=replace(bundle.heading, duration_ms="<i>"))
    with pytest.raises(BundleUnreadable):
        page_of(odd)


def test_a_bundle_that_unpacks_to_far_too_much_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    write_bundle(path, heading(), [Section("x", Status.OK)], "r", "<p>")
    bomb = forged_from(path, tmp_path / "b.zip", report_txt=b" " * (65 << 20))
    assert bomb.stat().st_size < 1 << 20
    with pytest.raises(BundleUnreadable, match="unpacks to 65 MiB"):
        read_bundle(bomb)


def test_a_page_over_an_older_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    page = tmp_path / "p.html"
    page.touch(0o644)
    write_page(str(page), "x")
    assert page.stat().st_mode & 0o777 == 0o600


def test_text_that_is_no_unicode_is_written_all_the_same(tmp_path: Path) -> None:
    odd = "a\ud800b"
    sections = [Section("x", Status.ERROR, odd, payload={odd: odd})]
    write_bundle(tmp_path / "a.zip", heading(why=odd, host=odd), sections, odd, odd)
    assert read_bundle(tmp_path / "a.zip").report == "a?b"
