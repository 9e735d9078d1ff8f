"""`supervisor demo`, run for real: everything ends as the cast says and nothing is left behind."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from autopsy.bundle import read_bundle
from supervisor.demo.cast import CAST, children, expected_counts
from supervisor.demo.tasks import app
from supervisor.model.states import State

DEMO = (sys.executable, "-m", "supervisor.cli", "demo")
BUSY_HOST_S = 25
PRODUCTION = "production.db"


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A temporary directory with a name short enough for a socket in it."""
    made = Path(tempfile.mkdtemp(prefix="demo-"))
    yield made
    shutil.rmtree(made)


def run_demo(*arguments: str, scratch: Path) -> subprocess.CompletedProcess[str]:
    """Run it beside a configured store and limits that must not concern it."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "TMPDIR": str(scratch),
        "SUPERVISOR_STORE": f"sqlite:///{scratch / PRODUCTION}",
        "SUPERVISOR_WORKERS": "1",
    }
    return subprocess.run(
        [*DEMO, *arguments], env=environment, capture_output=True, text=True, timeout=100
    )


@pytest.mark.alone  # one of its tasks spins, and its evidence is to say so
@pytest.mark.timeout(120)
def test_all_ends_as_designed_and_nothing_is_left_behind(scratch: Path) -> None:
    done = run_demo("--for", str(BUSY_HOST_S), "--json", "--spawn", "zygote", scratch=scratch)
    assert done.stderr == ""
    summary = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert summary["surprises"] == []
    assert summary["states"] == {str(state): n for state, n in expected_counts().items()}
    assert summary["submitted"] == sum(part.tasks for part in CAST) + children()
    assert (summary["leftover_processes"], summary["leftovers"]) == (0, [])
    assert summary["stopped_in_order"] is True
    assert summary["as_designed"] is True
    assert done.returncode == 0
    verdicts = {one["part"]: one["verdict"] for one in summary["autopsies"]}
    assert verdicts["deadlocked"] == verdicts["busy"] == "timeout"
    assert verdicts["hopeless"] == "canceled"
    for one in summary["autopsies"]:
        bundle = read_bundle(Path(one["path"]))
        codes = [found.code for found in bundle.heading.diagnosis]
        assert one["diagnosis"] == (codes[0] if codes else None)
    (kept,) = scratch.glob("supervisor-demo-*")
    assert [path.name for path in kept.iterdir()] == ["autopsies"]
    assert not (scratch / PRODUCTION).exists()


@pytest.mark.timeout(60)
def test_a_demo_cut_short_leaves_nothing(scratch: Path) -> None:
    done = run_demo("--for", "2", "--json", scratch=scratch)
    summary = json.loads(done.stdout)
    assert (done.returncode, summary["leftover_processes"]) == (0, 0)
    assert summary["states"]["RUNNING"] == 0
    assert summary["as_designed"] is False


@pytest.mark.timeout(60)
def test_people_get_a_link_to_the_pages(scratch: Path) -> None:
    demo = subprocess.Popen(
        DEMO,
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert demo.stdout is not None
    with demo, demo.stdout as out:
        link = next(word for line in out for word in line.split() if "token=" in word)
        with build_opener(HTTPCookieProcessor()).open(link, timeout=10) as page:
            assert "<h1>Overview</h1>" in page.read().decode()
        demo.send_signal(signal.SIGINT)
        assert "left no process behind" in out.read()
    assert demo.wait(30) == 0


@pytest.mark.timeout(90)
def test_a_live_demo_keeps_working_and_leaves_nothing(scratch: Path) -> None:
    done = run_demo("--live", "--for", "20", "--json", scratch=scratch)
    assert done.stderr == ""
    summary = json.loads(done.stdout)
    assert (done.returncode, summary["leftovers"]) == (0, [])
    assert summary["stopped_in_order"] is True
    states = summary["states"]
    assert states["RUNNING"] == 0
    assert states["SUCCESS"] > 25
    assert states["CANCELED"] >= 1
    assert states["TIMEOUT"] >= 1
    assert list(scratch.glob("supervisor-demo-*/autopsies/*-timeout.zip"))


def test_a_wrong_setting_is_refused_before_anything_is_made(scratch: Path) -> None:
    done = run_demo("--for", "2", "--workers", "0", scratch=scratch)
    assert done.returncode == 2
    assert "workers" in done.stderr
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("flag", ["--store", "--config", "--lease"])
def test_what_a_demo_would_ignore_is_refused(scratch: Path, flag: str) -> None:
    done = run_demo("--for", "2", flag, "3", scratch=scratch)
    assert done.returncode == 2
    assert f"No such option '{flag}'" in done.stderr
    assert list(scratch.iterdir()) == []


def test_every_part_has_a_type_and_every_type_a_part() -> None:
    assert {part.type for part in CAST} == set(app.types)
    assert {part.ends for part in CAST} == {
        State.SUCCESS, State.FAILED, State.CANCELED, State.TIMEOUT
    }  # fmt: skip
