"""`supervisor rules export`: what it writes, what it leaves alone, what it refuses."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from rules import promtool

from supervisor.cli.group import build

ROOT = Path(__file__).parents[2]


def rules_export(folder: Path, *flags: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "supervisor", "rules", "export", str(folder), *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_it_writes_what_is_committed_and_says_how_to_load_it(tmp_path: Path) -> None:
    code, said, complaint = rules_export(tmp_path)
    assert (code, complaint) == (0, "")
    for name in ("recording.rules.yml", "alerts.rules.yml", "slo.rules.yml", "alertmanager.yml"):
        assert (tmp_path / name).read_text() == (ROOT / "alerts" / name).read_text()
        assert str(tmp_path / name) in said
    books = {path.name: path.read_text() for path in (tmp_path / "runbooks").iterdir()}
    kept = {path.name: path.read_text() for path in (ROOT / "docs" / "runbooks").iterdir()}
    assert books == kept
    assert "job_name: supervisor" in said


def test_what_it_says_belongs_into_prometheus_yml_passes_the_check(tmp_path: Path) -> None:
    folder = tmp_path / "rules"
    said = rules_export(folder)[1]
    lines = said.split("-/reload:\n\n")[1].split("\n\n")[0].splitlines()
    assert all(line.startswith("  ") for line in lines)
    config = tmp_path / "prometheus.yml"
    config.write_text("\n".join(line[2:] for line in lines))
    files = ["--prometheus", str(config), "--rules", str(folder)]
    files += ["--alertmanager", str(folder / "alertmanager.yml")]
    done = CliRunner().invoke(build(), ["check", *files])
    assert done.exit_code == 0, done.stdout
    assert {line.split()[0] for line in done.stdout.splitlines()} == {"ok"}


def test_links_receivers_and_thresholds_are_put_in(tmp_path: Path) -> None:
    code, said, _ = rules_export(
        tmp_path,
        *("--web-url", "https://tasks.internal/", "--receiver", "sms=https://gate.internal/sms"),
        *("--token-file", "/run/secrets/gate", "--threshold", "failed_rate=0.1", "--json"),
    )
    assert code == 0
    assert set(json.loads(said)["files"].values()) == {"written"}
    alerts = (tmp_path / "alerts.rules.yml").read_text()
    assert "https://tasks.internal/autopsies/latest?type=" in alerts
    assert "ratio_rate10m > 0.1\n" in alerts
    routes = (tmp_path / "alertmanager.yml").read_text()
    assert "url: https://gate.internal/sms" in routes
    assert "credentials_file: /run/secrets/gate" in routes
    assert promtool.check(*tmp_path.glob("*.rules.yml")) == ""


def test_its_own_files_are_replaced_and_others_are_not(tmp_path: Path) -> None:
    assert rules_export(tmp_path)[0] == 0
    foreign = tmp_path / "slo.rules.yml"
    foreign.write_text("groups: []  # mine\n")
    code, _, complaint = rules_export(tmp_path, "--threshold", "failed_rate=0.2")
    assert code == 1
    assert complaint.startswith(f"error: not written by this command: {foreign}\nremedy: ")
    assert foreign.read_text() == "groups: []  # mine\n"
    assert "> 0.05\n" in (tmp_path / "alerts.rules.yml").read_text()
    code, said, _ = rules_export(tmp_path, "--threshold", "failed_rate=0.2", "--force", "--json")
    files = json.loads(said)["files"]
    assert code == 0
    assert (files["slo.rules.yml"], files["recording.rules.yml"]) == ("replaced", "unchanged")


@contextmanager
def small_disk(place: Path, size: int) -> Iterator[Path]:
    """A file system of its own that is full after so many bytes."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)]
    subprocess.run(mount, check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def everything_in(folder: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def test_a_full_disk_changes_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 600 << 10) as disk:
        folder = disk / "new" / "rules"
        assert rules_export(folder)[0] == 0
        before = everything_in(disk)
        room = shutil.disk_usage(disk).free
        (disk / "full").write_bytes(b"x" * (room - 8192))
        code, said, complaint = rules_export(folder, "--web-url", "https://tasks.internal")
        (disk / "full").unlink()
        assert (code, said) == (1, "")
        where = f"error: cannot write to {folder}: No space left on device\n"
        assert complaint == where + (
            "remedy: Make room there and export again, or name another folder; nothing was changed."
            "\n"
        )
        assert everything_in(disk) == before
        (disk / "full").write_bytes(b"x" * (room - 8192))
        assert rules_export(disk / "other" / "rules")[0] == 1
        assert not (disk / "other").exists()


def test_a_folder_that_cannot_be_written_to_is_told_with_a_remedy(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 64 << 10) as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        code, _, complaint = rules_export(disk / "rules")
    assert (code, complaint) == (
        1,
        (
            f"error: cannot write to {disk}/rules: Read-only file system\n"
            "remedy: Name a folder that you may write to, or run it as a user who may.\n"
        ),
    )


def test_what_is_no_folder_is_told_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    for folder, why in (
        (tmp_path / "file" / "rules", "Not a directory"),
        (tmp_path / "nowhere", "File exists"),
        (tmp_path / ("x" * 300), "File name too long"),
    ):
        code, _, complaint = rules_export(folder)
        assert code == 1
        assert why in complaint.splitlines()[0]
        assert complaint.splitlines()[1].startswith("remedy: Name a folder")
    assert {one.name for one in tmp_path.iterdir()} == {"file", "nowhere"}


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "rules", tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "slo.rules.yml").symlink_to(elsewhere)
    code, _, complaint = rules_export(folder)
    assert code == 1
    assert complaint.startswith(f"error: not written by this command: {folder}/slo.rules.yml\n")
    assert [one.name for one in folder.iterdir()] == ["slo.rules.yml"]
    elsewhere.write_text("mine")
    assert rules_export(folder, "--force")[0] == 0
    assert elsewhere.read_text() == "mine"
    assert not (folder / "slo.rules.yml").is_symlink()


def test_a_folder_in_the_place_of_a_file_is_refused_even_if_forced(tmp_path: Path) -> None:
    (tmp_path / "slo.rules.yml").mkdir()
    code, _, complaint = rules_export(tmp_path, "--force")
    assert (code, complaint) == (
        1,
        (
            f"error: not written by this command: {tmp_path}/slo.rules.yml\n"
            "remedy: Export into another folder.\n"
        ),
    )
    assert [one.name for one in tmp_path.iterdir()] == ["slo.rules.yml"]


def test_what_is_replaced_keeps_who_may_read_it(tmp_path: Path) -> None:
    assert rules_export(tmp_path)[0] == 0
    (tmp_path / "alerts.rules.yml").chmod(0o640)
    assert rules_export(tmp_path, "--threshold", "failed_rate=0.2")[0] == 0
    assert (tmp_path / "alerts.rules.yml").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("flag", "value", "why"),
    [
        ("--threshold", "failed_rate=inf", "failed_rate: 'inf' is no number above 0"),
        ("--threshold", "failed_rate=nan", "failed_rate: 'nan' is no number above 0"),
        ("--threshold", "failed_rate=-1", "failed_rate: '-1' is no number above 0"),
        ("--threshold", "failed_rate=1e999", "failed_rate: '1e999' is no number above 0"),
        ("--threshold", "failed_rate", "'failed_rate' is not NAME=NUMBER"),
        ("--receiver", "sms", "'sms' is not NAME=URL"),
        (
            "--receiver",
            "sms=gate",
            "sms: 'gate': it must begin with http:// or https:// and a host",
        ),
        ("--receiver", "sms=https://g/a b", "it has a character or a port that no URL has"),
        ("--web-url", "tasks.internal", "it must begin with http:// or https:// and a host"),
        ("--web-url", "https://", "it must begin with http:// or https:// and a host"),
        ("--grafana-url", "ftp://grafana", "it must begin with http:// or https:// and a host"),
        ("--grafana-url", "http://g:99999", "it is no URL: Port out of range 0-65535"),
        ("--grafana-url", "http://g/?orgId=1", "a path is put behind it"),
        ("--runbook-url", "https://wiki/{x}", "it has a character or a port that no URL has"),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_option(
    tmp_path: Path, flag: str, value: str, why: str
) -> None:
    folder = tmp_path / "new"
    done = CliRunner().invoke(build(), ["rules", "export", str(folder), flag, value])
    assert done.exit_code == 2
    told = done.stderr.splitlines()[0]
    assert told.startswith(f"error: Invalid value for '{flag}': ")
    assert why in told
    assert not folder.exists()


def test_a_name_that_there_is_not_is_refused(tmp_path: Path) -> None:
    for flags in (("--threshold", "speed=1"), ("--receiver", "fax=http://x")):
        code, _, complaint = rules_export(tmp_path / "new", *flags)
        assert code == 2
        assert "remedy: One of: " in complaint
    assert not (tmp_path / "new").exists()
