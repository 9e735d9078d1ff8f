"""Killed for memory by the kernel, and told so: with a real control group, and by its files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import FAILED, Start, eventually

from supervisor.model.crash import OomEvidence
from supervisor.model.states import State
from supervisor.node.oom import RECENT_S, OomWatch

LIMIT_BYTES = 300 * 2**20


# -- the real thing


def _own_group() -> tuple[Path, str] | None:
    """Return the directory of our own memory group and the name of its limit, if there is one."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for mounted, limit in (
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"),
        ):  # fmt: skip
            if ("memory" in controllers.split(",")) == (limit == "memory.limit_in_bytes"):
                found = Path(mounted) / path.lstrip("/")
                if (found / "cgroup.procs").exists():
                    return found, limit
    return None


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group below ours with little memory, removed afterwards."""
    own = _own_group()
    if own is None or not os.access(own[0], os.W_OK):
        pytest.xfail("no control group for memory may be made on this machine")
    made = own[0] / f"supervisor-test-{os.getpid()}"
    made.mkdir()
    try:
        (made / own[1]).write_text(str(LIMIT_BYTES))
        yield made
    finally:  # the node is closed by then, and what it ran is on its way out
        eventually(lambda: not (made / "cgroup.procs").read_text(), 5, "the group is empty")
        made.rmdir()


def _inside(group: Path) -> tuple[str, ...]:
    return ("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh")


def test_oom_kill_of_a_worker(group: Path, start_node: Start) -> None:
    """The same body is told apart from a SIGKILL by a person in the same group."""
    node = start_node(prefix=_inside(group), workers=1)
    view = node.run("eats_memory", timeout=60)
    (attempt,) = node.attempts(view.task_id)
    assert (view.state, view.reason, view.crash_count) == (State.FAILED, "oom_killed", 1)
    assert attempt.error is not None
    assert attempt.error == (
        "the worker was killed by signal 9 (SIGKILL) by the kernel's OOM killer: "
        "the OOM killer's counter rose"
    )
    assert attempt.detail is not None
    assert attempt.detail.startswith("oom_kill of control group "), attempt.detail
    assert attempt.detail.endswith(" is 1")
    assert attempt.usage["max_rss_bytes"] > LIMIT_BYTES / 3
    assert node.running, "the node is not the victim"

    other = node.run("crash", how="kill", spec={"max_retries": 0})
    (attempt,) = node.attempts(other.task_id)
    assert (other.state, attempt.outcome, other.reason) == (
        State.FAILED, FAILED, "killed_by_signal",
    )  # fmt: skip
    assert "did not rise" in (attempt.error or "")
    assert node.stop() == 0


def test_oom_kill_leaves_a_bundle(group: Path, start_node: Start) -> None:
    """Of what outlives the process: how it ended, and what it said, did and used until then."""
    node = start_node("tests.programs.tasks_crashing:app", prefix=_inside(group), workers=1)
    view = node.run("eats_memory", timeout=60)
    eventually(lambda: node.reader.autopsies(view.task_id), 10, "the bundle is known")
    bundle = node.bundle(view.task_id)
    facts = bundle.sections["facts"]
    assert (facts["verdict"], facts["exit"]) == ("oom_killed", "killed by signal 9 (SIGKILL)")
    assert facts["exit_detail"].startswith("oom_kill of control group ")
    assert facts["max_rss_bytes"] > LIMIT_BYTES / 3
    assert facts["progress"] == {"done": 3, "total": 9}
    assert facts["looks"]
    assert [one["text"] for one in bundle.sections["logs"]["records"]] == ["step 3 of 9"]
    assert bundle.sections["output"]["text"].startswith("about to fail\n")
    assert "by the kernel's OOM killer" in bundle.report
    assert node.stop() == 0


def test_oom_kill_of_a_grandchild(group: Path, start_node: Start) -> None:
    """The worker lives on, and the node says that something else below it died of it."""
    node = start_node(prefix=_inside(group), workers=1)
    view = node.run("feeds_a_child", timeout=60)
    assert (view.state, view.result_json, view.crash_count) == (State.SUCCESS, "-9", 0)
    (told,) = eventually(lambda: node.events("oom.unexplained"), RECENT_S + 3)
    assert told["kills"] == 1
    assert node.stop() == 0


# -- by files of the same form


def _files(tmp_path: Path, version: int, kills: int, host: int = 0) -> tuple[Path, Path, Path]:
    """Write what a kernel shows of a process in group /jobs/a; return (proc, root, counter)."""
    proc, root = tmp_path / "proc", tmp_path / "root"
    (proc / "self").mkdir(parents=True, exist_ok=True)
    if version == 2:
        (proc / "self/cgroup").write_text("0::/jobs/a\n")
        mount = "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
        counter = root / "sys/fs/cgroup/jobs/a/memory.events"
        text = f"low 0\nhigh 7\nmax 12\noom 3\noom_kill {kills}\noom_group_kill 0\n"
    else:
        (proc / "self/cgroup").write_text("8:cpu,cpuacct:/x\n4:memory:/jobs/a\n0::/\n")
        mount = (
            "31 30 0:27 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
            "32 30 0:28 /jobs /cg/memory rw - cgroup cgroup rw,memory\n"
            "33 30 0:29 / /cg/unified rw - cgroup2 cgroup2 rw\n"
        )
        counter = root / "cg/memory/a/memory.oom_control"
        text = f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n"
    (proc / "self/mountinfo").write_text(mount)
    (proc / "vmstat").write_text(f"pgfault 1\noom_kill {host}\n")
    counter.parent.mkdir(parents=True, exist_ok=True)
    counter.write_text(text)
    return proc, root, counter


def _again(tmp_path: Path, version: int, kills: int, host: int = 0) -> None:
    _files(tmp_path, version, kills, host)


COUNTER = "the OOM killer's counter"


def rose(count: int) -> OomEvidence:
    source = f"oom_kill of control group /jobs/a is {count}"
    return OomEvidence(killed=True, text=f"{COUNTER} rose", source=source)


def still(count: int) -> OomEvidence:
    source = f"oom_kill of control group /jobs/a is {count}"
    return OomEvidence(killed=False, text=f"{COUNTER} did not rise", source=source)


@pytest.mark.parametrize("version", [1, 2])
def test_a_rise_explains_one_death(tmp_path: Path, version: int) -> None:
    proc, root, _ = _files(tmp_path, version, 4)
    watch = OomWatch(proc, root)
    assert watch.explain(100.0) == still(4)
    _again(tmp_path, version, 5)
    assert watch.explain(101.0) == rose(5)
    assert watch.explain(101.0) == still(5)


def test_a_rise_seen_by_the_round_before_the_reap_counts(tmp_path: Path) -> None:
    proc, root, _ = _files(tmp_path, 2, 3)
    watch = OomWatch(proc, root)
    _again(tmp_path, 2, 5)
    assert watch.look(100.0) == 0
    told = [watch.explain(101.0), watch.explain(101.5), watch.explain(102.0)]
    assert told == [rose(5), rose(5), still(5)]


def test_an_old_rise_explains_nothing_and_is_told(tmp_path: Path) -> None:
    proc, root, _ = _files(tmp_path, 2, 4)
    watch = OomWatch(proc, root)
    _again(tmp_path, 2, 5)
    assert watch.look(100.0) == 0
    assert watch.look(100.1 + RECENT_S) == 1
    assert watch.explain(100.1 + RECENT_S) == still(5)


def test_without_a_counter_nothing_is_claimed(tmp_path: Path) -> None:
    proc, root, counter = _files(tmp_path, 2, 4, host=1)
    counter.unlink()
    watch = OomWatch(proc, root)
    first = watch.explain(100.0)
    _again(tmp_path, 2, 4, host=2)
    counter.unlink()
    second = watch.explain(101.0)
    (proc / "vmstat").unlink()
    third = watch.explain(102.0)
    assert [first.killed, second.killed, third.killed] == [False, False, False]
    source = f"oom_kill of its control group could not be read (FileNotFoundError: [Errno 2] No such file or directory: '{counter}')"  # noqa: E501
    assert (first.source, second.source, third.source) == (source, source, source)
    unread = f"{COUNTER} could not be read"
    assert first.text == f"{unread}, that of the host did not rise"
    assert second.text == (
        f"{unread}, that of the host rose since the last such death: perhaps it was this one"
    )
    assert watch.explain(103.0).text == unread


def test_no_group_at_all(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/cgroup").write_text("3:cpuset:/\n")
    (tmp_path / "self/mountinfo").write_text("")
    assert OomWatch(tmp_path).explain(1.0) == OomEvidence(
        killed=False,
        text=f"{COUNTER} could not be read",
        source="oom_kill of its control group could not be read "
        "(it is in no control group for memory)",
    )
