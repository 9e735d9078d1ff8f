"""Canaries: not one secret of a task or a program in any byte of any bundle, whatever ended it."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import servers
from harness import NodeUnderTest, eventually

from supervisor.store import AutopsyRecord

NODE_APP = "tests.programs.tasks_canary:app"
PROGRAM = Path(__file__).parents[1] / "programs" / "canary_alone.py"
PARAMS: dict[str, Any] = {
    "password": 'c4n4ry-p<a&ss> "word"',
    "api_key": "c4n4ry/api+key=",
    "token": "c4n4rytokenc4n4ry",
    "reference": "c4n4ry marked é",
    "customer": {"pin": "c4n4ry-pin", "reference": "c4n4ry-nested", "name": "Ada"},
    "seed": "481516-2342-c4n4ry",
}
ENVIRONMENT = {
    "CANARY_DATABASE_URL": "postgresql://app:c4n4ry-database@db.internal/shop",
    "CANARY_REDIS_URL": "redis://:c4n4ry-redis@cache.internal:6379/0",
    "CANARY_API_TOKEN": "c4n4ry-of-the-environment",
}


@pytest.fixture(scope="module", autouse=True)
def environment() -> Iterator[None]:
    """Let every node and program of this module have secrets in its environment."""
    os.environ.update(ENVIRONMENT)
    yield
    for name in ENVIRONMENT:
        del os.environ[name]


def leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for one in value.values():
            yield from leaves(one)
    else:
        yield str(value)


def secrets() -> list[str]:
    """Return every secret, and each in base64."""
    found = [one for one in leaves(PARAMS) if one != "Ada"] + list(ENVIRONMENT.values())
    # Not of a whole address: only the password in it is a known value.
    whole = [one for one in found if "://" not in one]
    written = [base64.b64encode(one.encode()).decode().rstrip("=") for one in whole]
    return ["c4n4ry", "c4n4r%79", *written]


def require_no_canary(what: str, contents: bytes) -> None:
    found = [one for one in secrets() if one.encode() in contents]
    around = [contents[max(0, (at := contents.find(one.encode())) - 80) : at + 60] for one in found]
    assert found == [], f"{what}: {around}"


def contents_of(bundle: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(bundle) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def require_clean(bundle: Path) -> dict[str, bytes]:
    """Require that no file of a bundle has a canary, nor its raw bytes; return the files."""
    assert bundle.stat().st_mode & 0o777 == 0o600
    require_no_canary(str(bundle), bundle.read_bytes())
    contents = contents_of(bundle)
    assert {"manifest.json", "report.txt", "report.html"} <= set(contents)
    for name, content in contents.items():
        require_no_canary(name, content)
    return contents


def rows(node: NodeUnderTest, task_id: str) -> list[AutopsyRecord]:
    found: list[AutopsyRecord] = eventually(
        lambda: list(node.reader.autopsies(task_id)), 15, "an autopsy"
    )
    return found


def require_clean_rows(found: list[AutopsyRecord]) -> dict[str, bytes]:
    for row in found:
        require_no_canary("diagnosis", (row.diagnosis_json or "").encode())
        require_no_canary("row", repr(row).encode())
    return require_clean(Path(found[0].path))


def text(contents: dict[str, bytes], name: str) -> str:
    return contents[f"sections/{name}.json"].decode()


def test_a_task_that_is_killed_tells_no_secret(node: NodeUnderTest) -> None:
    handle = node.submit("spreads", spec={"timeout": 3, "soft_timeout": 2}, how="hangs", **PARAMS)
    handle.wait(40)
    contents = require_clean_rows(rows(node, handle.task_id))
    # The evidence is there, but for the secrets in it.
    assert "used [redacted] for it" in text(contents, "logs")
    assert "app:[redacted]@db.internal" in text(contents, "logs")
    assert text(contents, "children").count("[redacted]") >= 4
    assert "_sleeps" in text(contents, "stacks")
    assert "[redacted]" in contents["report.html"].decode()
    notes = [repr(line) for line in node.app.history(handle.task_id) if "autopsy" in repr(line)]
    require_no_canary("audit", "".join(notes).encode())


@pytest.mark.parametrize("how", ["aborts", "raises"])
def test_what_is_left_of_one_that_ends_tells_no_secret(node: NodeUnderTest, how: str) -> None:
    handle = node.submit("spreads", how=how, **PARAMS)
    handle.wait(40)
    if how == "aborts":
        contents = require_clean_rows(rows(node, handle.task_id))
        assert "[redacted]" in text(contents, "output")


@pytest.mark.parametrize("app", [(), ("--app", NODE_APP)], ids=["params", "marked"])
def test_evidence_that_is_asked_for_tells_no_secret(
    node: NodeUnderTest, app: tuple[str, ...], tmp_path: Path
) -> None:
    handle = node.submit("spreads", how="hangs", **PARAMS)
    node.started(handle)
    eventually(lambda: b"refused" in node.cli("logs", handle.task_id).stdout.encode(), 10, "spread")
    taken = node.cli("autopsy", "capture", handle.task_id, *app)
    page, copy = tmp_path / "page.html", tmp_path / "copy.zip"
    shown = node.cli("autopsy", "show", handle.task_id, "--html", str(page))
    exported = node.cli("autopsy", "export", handle.task_id, "--to", str(copy))
    node.app.cancel([handle.task_id], by="anna", reason="seen")
    assert (taken.returncode, shown.returncode, exported.returncode) == (0, 0, 0), taken.stderr
    require_no_canary("output", (taken.stdout + taken.stderr + shown.stdout).encode())
    require_no_canary("page", page.read_bytes())
    assert (page.stat().st_mode & 0o777, copy.stat().st_mode & 0o777) == (0o600, 0o600)
    contents = require_clean(copy)
    assert "used [redacted] for it" in text(contents, "logs")
    require_clean_rows(rows(node, handle.task_id))
    handle.wait(40)


def test_a_program_of_its_own_tells_no_secret(tmp_path: Path) -> None:
    out, page = tmp_path / "a.zip", tmp_path / "a.html"
    command = [sys.executable, str(PROGRAM), "--password", "c4n4ry-option"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            options = ["--out", str(out), "--html", str(page)]
            told = subprocess.run(
                [sys.executable, "-m", "autopsy", str(process.pid), *options],
                capture_output=True,
                check=True,
                timeout=30,
            )
        finally:
            process.terminate()
    require_no_canary("output", told.stdout + told.stderr)
    require_no_canary("page", page.read_bytes())
    contents = require_clean(out)
    child = json.loads(text(contents, "children"))["children"][0]
    assert child["command_line"][-2:] == ["--token=[redacted]", "-p[redacted]"]
    assert "CANARY" not in text(contents, "process").upper().replace("CANARY_ALONE", "")


def test_a_program_in_a_database_tells_no_secret(
    tmp_path: Path, postgresql: servers.PostgreSQL, redis_server: servers.Redis
) -> None:
    out = tmp_path / "a.zip"
    urls = {
        "CANARY_DATABASE_URL": postgresql.url.replace("postgres@", "postgres:c4n4ry-password@"),
        "CANARY_REDIS_URL": redis_server.url,
    }
    with subprocess.Popen(
        [sys.executable, str(PROGRAM.with_name("canary_server.py"))],
        stdout=subprocess.PIPE,
        env={**os.environ, **urls},
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            options = ["--out", str(out), "--database", urls["CANARY_DATABASE_URL"]]
            told = subprocess.run(
                [sys.executable, "-m", "autopsy", str(process.pid), *options],
                capture_output=True,
                check=True,
                timeout=30,
            )
        finally:
            process.kill()
    require_no_canary("output", told.stdout + told.stderr)
    contents = require_clean(out)
    (server,) = json.loads(text(contents, "databases"))["postgresql"]
    assert [one["query"] for one in server["backends"]] == ["SELECT ? FROM pg_sleep(?)"]
