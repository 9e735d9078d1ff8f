"""`supervisor dashboards export`: what it writes, what it leaves alone, what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def export(folder: Path, *flags: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "supervisor", "dashboards", "export", str(folder), *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_it_writes_what_is_committed_and_says_how_grafana_finds_it(tmp_path: Path) -> None:
    code, said, complaint = export(tmp_path)
    assert (code, complaint) == (0, "")
    assert texts(tmp_path) == texts(ROOT / "dashboards")
    assert f"options: {{path: {tmp_path}}}" in said


def test_lines_and_links_follow_the_flags(tmp_path: Path) -> None:
    flags = ("--threshold", "queue_wait_s=77", "--web-url", "https://tasks.internal/", "--json")
    code, said, _ = export(tmp_path, *flags)
    assert code == 0
    assert set(json.loads(said)["files"].values()) == {"written"}
    assert '"value": 77' in (tmp_path / "queues.json").read_text()
    assert "https://tasks.internal/autopsies" in (tmp_path / "autopsies.json").read_text()


def test_a_threshold_that_there_is_not_is_refused(tmp_path: Path) -> None:
    code, _, complaint = export(tmp_path, "--threshold", "patience=3")
    assert code == 2
    assert complaint.startswith("error: there is no threshold patience\nremedy: One of: ")
    assert texts(tmp_path) == {}


def test_its_own_files_are_replaced_and_others_are_not(tmp_path: Path) -> None:
    assert export(tmp_path)[0] == 0
    foreign = tmp_path / "slo.json"
    foreign.write_text('{"uid": "mine"}\n')
    code, _, complaint = export(tmp_path)
    assert code == 1
    assert complaint.startswith(f"error: not written by this command: {foreign}\nremedy: ")
    assert export(tmp_path, "--force")[0] == 0
    assert texts(tmp_path) == texts(ROOT / "dashboards")


def test_the_containers_find_them() -> None:
    provisioning = ROOT / "deploy" / "grafana" / "provisioning"
    [provider] = yaml.safe_load((provisioning / "dashboards" / "supervisor.yml").read_text())[
        "providers"
    ]
    [source] = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())[
        "datasources"
    ]
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    scraped = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())
    mounts = " ".join(services["grafana"]["volumes"])
    assert f":{provider['options']['path']}:ro" in mounts
    assert "./deploy/grafana/provisioning:/etc/grafana/provisioning:ro" in mounts
    assert source["url"] == "http://prometheus:9090"
    assert "prometheus" in services
    assert source["jsonData"]["timeInterval"] == scraped["global"]["scrape_interval"]
