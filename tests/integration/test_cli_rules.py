"""`supervisor rules export`: what it writes, what it leaves alone, what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from rules import promtool

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


def test_a_name_that_there_is_not_is_refused(tmp_path: Path) -> None:
    for flags in (("--threshold", "speed=1"), ("--receiver", "fax=http://x")):
        code, _, complaint = rules_export(tmp_path / "new", *flags)
        assert code == 2
        assert "remedy: One of: " in complaint
    assert not (tmp_path / "new").exists()
