"""The bundle: one zip file with a manifest, one JSON file per section and the report twice.

Secret: the file layout, and what is cut first when there is too much. Invariants: everything is
redacted before it is written, mode 0600; a bundle appears under its name whole or not at all
(`.partial`, fsync, rename); every checksum is verified when it is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

from autopsy import VERSION, redact
from autopsy.cause import RULES_VERSION, Diagnosis
from autopsy.errors import BundleNotWritten, BundleUnreadable
from autopsy.section import Payload, Section, Status

SCHEMA = 1
PARTIAL = ".partial"
# Larger than any ordinary section; 2000 threads with distinct stacks are cut to it.
SECTION_CAP_BYTES = 1 << 20
# Of all contents, before compression: a directory of bundles is kept by bytes.
MAX_BYTES = 8 << 20
# What is cut first when all sections together are too much; those not named are cut last.
_LEAST_WORTH = (
    "fds", "growth", "heap", "children", "sockets", "ring", "output", "logs", "locks", "memory",
    "process", "movement", "pools", "asyncio", "databases", "stacks", "thread_locks", "facts",
)  # fmt: skip
_TIGHT_BYTES = (256 << 10, 32 << 10, 2 << 10)
# Each round keeps less of every long list and text until the section fits.
_CUT_ROUNDS = ((2000, 65536), (500, 16384), (100, 4096), (20, 1024), (5, 256))
# Far more than anything we write: what is larger was made to fill a reader's memory.
_MAX_READ_BYTES = 64 << 20
_MAX_SECTIONS = 200
# A bundle has one for each section, the manifest and the two reports; older ones had less.
_MAX_MEMBERS = _MAX_SECTIONS + 10
_COMPRESSED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
_NAME_ONE = "Name a bundle: one of `autopsy PID --out FILE`, or of `supervisor autopsy export`."
_AGAIN = "Copy the bundle again from where it was captured; a .partial file is incomplete."
_MANIFEST = "manifest.json"
_REPORT = "report.txt"
_PAGE = "report.html"


@dataclass(frozen=True, slots=True)
class SectionEntry:
    """A section as the manifest lists it; `cut` says it was larger than the cap."""

    name: str
    status: Status
    reason: str
    ms: float
    file: str
    bytes: int
    sha256: str
    cut: bool


@dataclass(frozen=True, slots=True)
class Heading:
    """What a bundle says about itself apart from its sections.

    `is_python` is None when nobody could look, or in a bundle that is older than the field.
    """

    pid: int
    start_ticks: int
    why: str
    host: str
    python: str
    captured_at: str
    budget_s: float
    duration_ms: float
    status: str
    tools: dict[str, str]
    diagnosis: tuple[Diagnosis, ...]
    is_python: bool | None = None


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle read back, checksums verified; `page` is empty in an older one."""

    heading: Heading
    entries: tuple[SectionEntry, ...]
    sections: dict[str, Payload]
    report: str
    page: str = ""


def write_bundle(
    path: Path,
    heading: Heading,
    sections: Sequence[Section],
    report: str,
    page: str = "",
    max_bytes: int = MAX_BYTES,
    *,
    is_clean: bool = False,
) -> int:
    """Write a bundle in one step and return its size in bytes.

    `page` is the report as HTML, made of sections that are redacted already: in markup a secret
    may no longer look like one. `is_clean`: everything is. Contents of more than `max_bytes` are
    cut, the least worth first. Raises BundleNotWritten; what was written so far stays as
    `<path>.partial`.
    """
    if not is_clean:
        report = redact.text(report)
        sections = [cleaned(section, redact.tree, redact.text) for section in sections]
        heading = _with_diagnosis({**redact.tree(asdict(heading))})
    files = {_REPORT: report, **({_PAGE: page} if page else {})}
    texts = {name: text.encode("utf-8", "replace") for name, text in files.items()}
    left = max_bytes - sum(map(len, texts.values()))
    pieces = _fitted([_piece(section, SECTION_CAP_BYTES) for section in sections], left)
    if path.exists() and not path.is_file():  # taking the place of a device would be the end of it
        raise BundleNotWritten(f"{path} is no ordinary file", remedy="Name a file, or a new one.")
    try:
        return _put_in_place(path, heading, pieces, texts)
    except OSError as exc:
        raise BundleNotWritten(
            f"cannot write {path}: {exc.strerror}",
            remedy="Name a file in a directory that exists, is writable and has free space.",
        ) from exc


def read_bundle(
    path: Path, content: IO[bytes] | None = None, max_bytes: int = _MAX_READ_BYTES
) -> Bundle:
    """Read a bundle and verify every checksum; nothing is unpacked to a disk.

    With `content`, that is read and `path` is only what it is called. It may hold `max_bytes`
    unpacked. Raises BundleUnreadable naming what is wrong with it.
    """
    try:
        with zipfile.ZipFile(path if content is None else content) as archive:
            _check_members(path, archive, max_bytes)
            manifest = json.loads(archive.read(_MANIFEST))
            if manifest["schema"] > SCHEMA:
                raise _unreadable(path, f"it has schema {manifest['schema']}, newer than {SCHEMA}")
            if len(manifest["sections"]) > _MAX_SECTIONS:
                raise _unreadable(path, f"it has more than {_MAX_SECTIONS} sections")
            entries = tuple(_entry(listed) for listed in manifest["sections"])
            if len({entry.file for entry in entries}) < len(entries):
                raise _unreadable(path, "two of its sections are one file")
            sections = {entry.name: _verified(path, archive, entry) for entry in entries}
            report, page = (_text(path, archive, manifest, name) for name in (_REPORT, _PAGE))
        return Bundle(_heading(manifest), entries, sections, report, page)
    except OSError as exc:
        raise _unreadable(path, exc.strerror or str(exc), _NAME_ONE) from exc
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as exc:
        raise _unreadable(path, f"it is damaged or not a bundle ({exc})") from exc
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError, OverflowError) as exc:
        raise _unreadable(path, f"its contents are not those of a bundle ({exc})") from exc


def _check_members(path: Path, archive: zipfile.ZipFile, max_bytes: int) -> None:
    """Refuse what would not fit into memory; the sizes that are listed bound what is unpacked."""
    members = archive.infolist()
    total = sum(one.file_size for one in members)
    if total > max_bytes:
        raise _unreadable(path, f"it unpacks to {total >> 20} MiB, which no bundle does")
    if len(members) > _MAX_MEMBERS:
        raise _unreadable(path, f"it has {len(members)} files, which no bundle has")
    if len({one.filename for one in members}) < len(members):
        raise _unreadable(path, "a file is in it twice")
    for one in members:
        if not _is_inside(one.filename):
            raise _unreadable(path, f"it names a file outside of itself ({one.filename[:80]!r})")
        if one.compress_type not in _COMPRESSED or one.flag_bits & _ENCRYPTED:
            raise _unreadable(path, "it is packed or encrypted in a way that no bundle is")


def _is_inside(name: str) -> bool:
    """Say whether unpacking this would stay in its folder, on any system."""
    parts = name.split("/")
    return not set(name) & set("\\:\0") and "" not in parts[:-1] and ".." not in parts


def cleaned(section: Section, tree: Callable[[Any], Any], text: Callable[[str], str]) -> Section:
    """Return a section whose payload and reason went through these removers of secrets."""
    return replace(section, reason=text(section.reason), payload=tree(section.payload))


def encode(payload: Payload, cap_bytes: int = SECTION_CAP_BYTES) -> tuple[bytes, bool]:
    """Return a payload as JSON within the cap, and whether it had to be cut."""
    encoded = _as_json(payload)
    if len(encoded) <= cap_bytes:
        return encoded, False
    for items, characters in _CUT_ROUNDS:
        encoded = _as_json(_cut(payload, items, characters))
        if len(encoded) <= cap_bytes:
            return encoded, True
    return _as_json({"cut": "left out: larger than the cap in every form"}), True


@dataclass(frozen=True, slots=True)
class _Piece:
    """A section as it is written."""

    section: Section
    encoded: bytes
    cut: bool
    reason: str


def _piece(section: Section, cap_bytes: int) -> _Piece:
    encoded, cut = encode(section.payload, cap_bytes)
    reason = section.reason
    if cut and cap_bytes < SECTION_CAP_BYTES:
        note = f"cut to {cap_bytes >> 10} KiB, since the whole was too large"
        reason = f"{reason}; {note}" if reason else note
    return _Piece(section, encoded, cut, reason)


def _fitted(pieces: list[_Piece], max_bytes: int) -> list[_Piece]:
    """Cut sections, the least worth first and ever more of them, until all fit."""
    order = sorted(range(len(pieces)), key=lambda at: _worth(pieces[at].section.name))
    total = sum(len(one.encoded) for one in pieces)
    for cap_bytes in _TIGHT_BYTES:
        for at in order:
            if total <= max_bytes:
                return pieces
            if len(pieces[at].encoded) > cap_bytes:
                smaller = _piece(pieces[at].section, cap_bytes)
                total += len(smaller.encoded) - len(pieces[at].encoded)
                pieces[at] = smaller
    return pieces


def _worth(name: str) -> int:
    return _LEAST_WORTH.index(name) if name in _LEAST_WORTH else len(_LEAST_WORTH)


def _put_in_place(
    path: Path, heading: Heading, pieces: Sequence[_Piece], texts: dict[str, bytes]
) -> int:
    """Write beside the path, and rename only what is whole and on the disk; return its size."""
    partial = path.with_name(path.name + PARTIAL)
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(partial, flags, 0o600)
    with os.fdopen(fd, "wb") as file:
        os.fchmod(fd, 0o600)  # an older .partial may have had another mode
        _write_zip(file, heading, pieces, texts)
        file.flush()
        os.fsync(fd)
        size = file.tell()
    partial.replace(path)
    _sync_directory(path.parent)
    return size


def _write_zip(
    file: Any, heading: Heading, pieces: Sequence[_Piece], texts: dict[str, bytes]
) -> None:
    # Level 1: a third of the time of level 6 for a tenth more bytes, inside a kill's deadline.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for one in pieces:
            archive.writestr(_file_of(one), one.encoded)
        for name, text in texts.items():
            archive.writestr(name, text)
        manifest = {
            "schema": SCHEMA,
            "autopsy": VERSION,
            "redaction": redact.VERSION,
            "rules": RULES_VERSION,
            "section_cap_bytes": SECTION_CAP_BYTES,
            **asdict(heading),
            "sections": [asdict(_listed(one)) for one in pieces],
            "files": {
                name: {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}
                for name, text in texts.items()
            },
        }
        archive.writestr(_MANIFEST, json.dumps(manifest, indent=1))


def _file_of(piece: _Piece) -> str:
    return f"sections/{piece.section.name}.json"


def _listed(piece: _Piece) -> SectionEntry:
    return SectionEntry(
        name=piece.section.name,
        status=piece.section.status,
        reason=piece.reason,
        ms=piece.section.ms,
        file=_file_of(piece),
        bytes=len(piece.encoded),
        sha256=hashlib.sha256(piece.encoded).hexdigest(),
        cut=piece.cut,
    )


def _text(path: Path, archive: zipfile.ZipFile, manifest: dict[str, Any], name: str) -> str:
    """Read one form of the report; the page is not in older bundles, nor are these checksums."""
    if name == _PAGE and name not in archive.namelist():
        return ""
    encoded = archive.read(name)
    listed = manifest.get("files", {}).get(name)
    if listed is not None and hashlib.sha256(encoded).hexdigest() != listed["sha256"]:
        raise _unreadable(path, f"the checksum of {name} does not match")
    return encoded.decode("utf-8")


def _verified(path: Path, archive: zipfile.ZipFile, entry: SectionEntry) -> Payload:
    encoded = archive.read(entry.file)
    if hashlib.sha256(encoded).hexdigest() != entry.sha256:
        raise _unreadable(path, f"the checksum of section {entry.name} does not match")
    payload = json.loads(encoded)
    if not isinstance(payload, dict):
        raise _unreadable(path, f"section {entry.name} is not an object")
    return payload


def _entry(listed: dict[str, Any]) -> SectionEntry:
    return SectionEntry(**{**listed, "status": Status(listed["status"])})


def _heading(manifest: dict[str, Any]) -> Heading:
    names = [name for name in Heading.__dataclass_fields__ if name != "is_python"]
    kept = {name: manifest[name] for name in names}
    return _with_diagnosis({**kept, "is_python": manifest.get("is_python")})


def _with_diagnosis(kept: dict[str, Any]) -> Heading:
    found = tuple(
        Diagnosis(one["code"], one["confidence"], tuple(one["evidence"]))
        for one in kept["diagnosis"]
    )
    return Heading(**{**kept, "diagnosis": found})


def _unreadable(path: Path, why: str, remedy: str = _AGAIN) -> BundleUnreadable:
    return BundleUnreadable(f"cannot read bundle {path}: {why}", remedy=remedy)


def _as_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _cut(value: Any, items: int, characters: int) -> Any:
    if isinstance(value, str) and len(value) > characters:
        return f"[cut {len(value) - characters} characters] {value[-characters:]}"
    if isinstance(value, list):
        kept = [_cut(one, items, characters) for one in value[:items]]
        return kept + ([{"cut": len(value) - items}] if len(value) > items else [])
    if isinstance(value, dict):
        kept_entries = list(value.items())[:items]
        cut = {key: _cut(one, items, characters) for key, one in kept_entries}
        return {**cut, "cut": len(value) - items} if len(value) > items else cut
    return value


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Some file systems cannot sync a directory; the bundle itself is already safe.
        with contextlib.suppress(OSError):
            os.fsync(fd)
    finally:
        os.close(fd)
