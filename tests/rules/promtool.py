"""Runs promtool over cases and tells what each alert did at each time.

Secret kept here: the text that promtool prints of a check that did not hold. It is the only thing
that says which alerts fired, so it also answers "when does it fire first" (checks that expect
nothing) and "which of many mutants was noticed" (all of them in one run).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from servers import ServerMissing

_FAILED = re.compile(r"alertname: ?(?P<alert>[^,\n]+), time: ?(?P<time>[^,\n]+),")
_LABELS = re.compile(r"Labels:\{(?P<labels>[^}]*)\}")


@dataclass(frozen=True, slots=True)
class Failure:
    """One check that did not hold; `got` is what promtool says of what fired."""

    alert: str
    time: str
    got: str


def program(name: str) -> str:
    """Return the path of a program of the package prometheus. Raises ServerMissing."""
    found = shutil.which(name)
    if found is None:
        raise ServerMissing(f"{name} is not installed")
    return found


def check(*paths: Path) -> str:
    """Return what `promtool check rules` finds fault with; nothing when all is well."""
    command = [program("promtool"), "check", "rules", "--lint=all", "--lint-fatal"]
    done = subprocess.run([*command, *map(str, paths)], capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def run(files: Mapping[str, Any], test: str) -> tuple[bool, str]:
    """Run one test file among files that are written from content; return (passed, output)."""
    with tempfile.TemporaryDirectory(prefix="promtool-") as folder:
        for name, content in files.items():
            (Path(folder) / name).write_text(yaml.dump(content, Dumper=_dumper(), width=10_000))
        return run_file(Path(folder) / test)


def run_file(path: Path) -> tuple[bool, str]:
    """Run a test file; return (passed, output)."""
    command = [program("promtool"), "test", "rules", path.name]
    done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True)
    return done.returncode == 0, done.stdout + done.stderr


def failures(output: str) -> list[Failure]:
    """Read the checks of alerts that did not hold."""
    found = list(_FAILED.finditer(output))
    ends = [*(one.start() for one in found[1:]), len(output)] if found else []
    return [
        Failure(one["alert"].strip(), one["time"].strip(), _got(output[one.end() : end]))
        for one, end in zip(found, ends, strict=True)
    ]


def _got(text: str) -> str:
    return text.partition("got:")[2]


def fired(failure: Failure) -> list[dict[str, str]]:
    """Read the labels of what fired where something else was expected."""
    return [
        dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', one["labels"]))
        for one in _LABELS.finditer(failure.got)
    ]


def _dumper() -> Any:
    return getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def seconds(text: str) -> int:
    """Read a time as promtool prints it: 1h30m, 45s."""
    sizes = {"h": 3600, "m": 60, "s": 1}
    return sum(int(number) * sizes[unit] for number, unit in re.findall(r"(\d+)([hms])", text))


def groups_of(documents: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of all groups, in order."""
    return [group["name"] for one in documents for group in one["groups"]]
