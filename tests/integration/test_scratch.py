"""The scratch space of tasks: ours alone, and gone with what used it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from harness import Start, eventually

from supervisor.errors import Refused
from supervisor.node.scratch import ScratchRoot

REMEDY = "Remove it, or set TMPDIR to a directory that only this user can write to."


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_it_is_made_for_us_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        root = ScratchRoot(tmp_path)
    finally:
        os.umask(before)
    assert root.path == tmp_path / f"supervisor-{os.getuid()}"
    assert mode(root.path) == 0o700
    assert root.of("node-1") == root.path / "node-1"


@pytest.mark.parametrize("was", [0o777, 0o755, 0o1777, 0o500])
def test_one_that_is_ours_and_open_is_closed(tmp_path: Path, was: int) -> None:
    path = tmp_path / f"supervisor-{os.getuid()}"
    path.mkdir()
    path.chmod(was)
    assert mode(ScratchRoot(tmp_path).path) == 0o700


def refusal(tmp_path: Path, uid: int | None = None) -> str:
    with pytest.raises(Refused) as caught:
        ScratchRoot(tmp_path, uid)
    assert caught.value.remedy == REMEDY
    return str(caught.value)


def test_one_of_another_user_is_refused(tmp_path: Path) -> None:
    other = os.getuid() + 1
    (tmp_path / f"supervisor-{other}").mkdir(mode=0o755)
    assert refusal(tmp_path, other) == (
        f"{tmp_path}/supervisor-{other}, where tasks have their scratch space, "
        f"belongs to user {os.getuid()}, not to {other}"
    )
    assert mode(tmp_path / f"supervisor-{other}") == 0o755, "what is not ours is left as it is"


def test_a_link_is_refused_and_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir(mode=0o755)
    link = tmp_path / f"supervisor-{os.getuid()}"
    link.symlink_to(target)
    assert refusal(tmp_path) == (
        f"{link}, where tasks have their scratch space, is a symbolic link to {target}"
    )
    assert mode(target) == 0o755


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    path = tmp_path / f"supervisor-{os.getuid()}"
    path.touch()
    assert refusal(tmp_path).endswith("cannot be opened as a directory: Not a directory")


def test_no_temporary_directory(tmp_path: Path) -> None:
    assert refusal(tmp_path / "gone").endswith("cannot be made: No such file or directory")


def test_a_node_says_so_and_does_not_start(start_node: Start) -> None:
    node = start_node(run=False)
    (node.tmp / f"supervisor-{os.getuid()}").symlink_to("/var/tmp")
    node.start(wait=False)
    assert node.wait_exit() == 1
    assert "is a symbolic link to /var/tmp" in node.log_text()
    assert REMEDY in node.log_text()
    (node.tmp / f"supervisor-{os.getuid()}").unlink()


def test_gone_with_the_attempt_the_worker_and_the_node(start_node: Start, tmp_path: Path) -> None:
    """After a kill of the worker, of the node, and a stop."""
    node = start_node(workers=1)
    root = node.tmp / f"supervisor-{os.getuid()}"
    assert mode(root) == 0o700
    view = node.run("litters")
    assert view.reason == "timeout"
    (attempt,) = node.attempts(view.task_id)
    (own,) = root.iterdir()
    eventually(lambda: attempt.worker_id not in os.listdir(own), 5, "removed after the kill")

    handle = node.submit("litters", spec={"timeout": 30})
    node.started(handle)
    eventually(lambda: list(root.rglob("large")), 5, "it has littered")
    node.kill()
    assert list(root.rglob("large")) != [], "nobody was there to clean up"
    node.restart()
    (again,) = eventually(lambda: [p for p in root.iterdir() if p != own] or None, 5)
    assert not own.exists(), "the next node cleans up after the one that was killed"
    assert list(root.rglob("large")) == []
    assert node.stop() == 0
    assert not again.exists()
