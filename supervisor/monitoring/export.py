"""The files of rules, routes and runbooks, and writing them into a folder without doing harm.

Secret kept here: which file is ours (its first lines say so). Only such a file, or none, is
replaced, unless forced. `texts` is pure. Called by the command line, the generator of the committed
files, and tests.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from supervisor.errors import Refused
from supervisor.monitoring import alertmanager, alerts, recording, runbook
from supervisor.monitoring.alertmanager import Receivers
from supervisor.monitoring.rule import Links, document, to_yaml
from supervisor.monitoring.threshold import Thresholds

RULE_FILES = ("recording.rules.yml", "alerts.rules.yml", "slo.rules.yml")
ALERTMANAGER_FILE = "alertmanager.yml"
_OURS = ("# Generated from supervisor/monitoring", runbook.NOTICE, '"uid": "supervisor-')


def rule_texts(links: Links | None, thresholds: Thresholds) -> Mapping[str, str]:
    """Return the text of each rule file; without links, alerts have no annotations."""
    groups = (recording.groups(), alerts.groups(), alerts.slo_groups())
    return {
        name: to_yaml(document(of, thresholds, links))
        for name, of in zip(RULE_FILES, groups, strict=True)
    }


def alertmanager_text(receivers: Receivers) -> Mapping[str, str]:
    """Return the text of Alertmanager's file, by its name."""
    return {ALERTMANAGER_FILE: alertmanager.render(receivers)}


def runbook_texts(thresholds: Thresholds) -> Mapping[str, str]:
    """Return the text of each runbook, by file name."""
    return {
        f"{name}.md": runbook.page(of, thresholds) for name, of in sorted(alerts.by_name().items())
    }


def texts(links: Links, thresholds: Thresholds, receivers: Receivers) -> Mapping[str, str]:
    """Return every file of an export by its path in the folder."""
    return {
        **rule_texts(links, thresholds),
        **alertmanager_text(receivers),
        **{f"runbooks/{name}": text for name, text in runbook_texts(thresholds).items()},
    }


def write(folder: Path, files: Mapping[str, str], *, force: bool) -> Mapping[str, str]:
    """Write the files; return what became of each: written, replaced or unchanged.

    All are written beside their places first, then renamed one by one.
    Raises Refused, having changed nothing, when something is there that is not ours, or when the
    folder cannot be written to.
    """
    made: list[Path] = []
    try:
        foreign = sorted(_foreign(folder, files, force=force))
        if foreign:
            remedy = "Export into another folder"
            raise Refused(
                f"not written by this command: {', '.join(foreign)}",
                remedy=f"{remedy}." if force else f"{remedy}, or add --force to replace them.",
            )
        return _put_all(folder, files, made)
    except OSError as exc:
        for path in reversed(made):
            with suppress(OSError):  # what is in it by now is not ours
                path.rmdir() if path.is_dir() else path.unlink()
        where = exc.filename or folder
        raise Refused(f"cannot write to {where}: {exc.strerror}", remedy=_remedy(exc)) from exc


def _remedy(exc: OSError) -> str:
    if exc.errno in (errno.ENOSPC, errno.EDQUOT):
        return "Make room there and export again, or name another folder; nothing was changed."
    if exc.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "Name a folder that you may write to, or run it as a user who may."
    return "Name a folder: one that is there, or one that can be made."


def _foreign(folder: Path, files: Iterable[str], *, force: bool) -> Iterator[str]:
    """Return what stands in the way; a link does, wherever it leads."""
    for name in files:
        path = folder / name
        try:
            kind = path.lstat().st_mode
        except FileNotFoundError:
            continue
        is_file, is_link = stat.S_ISREG(kind), stat.S_ISLNK(kind)
        if force and (is_file or is_link):
            continue
        if not is_file or not any(mark in _head(path) for mark in _OURS):
            yield str(path)


def _head(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(400).decode("utf-8", "replace")


def _put_all(folder: Path, files: Mapping[str, str], made: list[Path]) -> Mapping[str, str]:
    """Write what is new or changed; `made` is what an error leaves to be removed."""
    done, beside = {}, {}
    for name, text in files.items():
        path = folder / name
        is_there = path.is_file() and not path.is_symlink()
        if is_there and path.read_bytes() == text.encode():
            done[name] = "unchanged"
            continue
        done[name] = "replaced" if is_there or path.is_symlink() else "written"
        _make(path.parent, made)
        beside[path] = _beside(path, text, made)
        if is_there:
            beside[path].chmod(stat.S_IMODE(path.stat().st_mode))
    for path, written in beside.items():
        written.replace(path)
    return done


def _make(folder: Path, made: list[Path]) -> None:
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for one in reversed(missing):
        one.mkdir()
        made.append(one)


def _beside(path: Path, text: str, made: list[Path]) -> Path:
    written = path.with_name(f".{path.name}.{os.getpid()}")
    with written.open("xb") as file:
        made.append(written)
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())  # a full disk of another host is told here
    return written
