"""CPU, storage, network, memory and descriptors of attempts, by type, as the kernel counts them."""

from __future__ import annotations

from pathlib import Path

from harness import NodeUnderTest, eventually

NODE_APP = "tests.programs.tasks_saying:app"
MIB = 2**20


def used(node: NodeUnderTest, metric: str, kind: str, **labels: str) -> float:
    """Return one number of a type."""
    labels = {**labels, "type": kind}
    return node.metrics()[f"supervisor_{metric}", tuple(sorted(labels.items()))]


def cpu_s(node: NodeUnderTest, kind: str) -> float:
    modes = ("user", "system")
    return sum(used(node, "task_cpu_seconds_total", kind, mode=mode) for mode in modes)


def test_all_is_there_from_zero(node: NodeUnderTest) -> None:
    assert cpu_s(node, "idle") == 0
    for direction in ("read", "written"):
        assert used(node, "task_io_bytes_total", "idle", direction=direction) == 0
    for direction in ("received", "sent"):
        assert used(node, "task_network_bytes_total", "idle", direction=direction) == 0
    assert used(node, "task_max_rss_bytes_count", "idle") == 0
    assert used(node, "task_open_fds", "idle") == 0


def test_cpu_time_of_the_body(node: NodeUnderTest) -> None:
    view = node.run("burns", cpu_s=0.4)
    (attempt,) = node.attempts(view.task_id)
    eventually(lambda: 0.4 <= cpu_s(node, "burns") < 0.8, what="its CPU time is told")
    assert abs(cpu_s(node, "burns") - attempt.usage["cpu_s"]) < 0.1
    assert used(node, "task_cpu_seconds_total", "burns", mode="user") > 0.05


def test_cpu_time_of_a_child_that_it_waits_for(node: NodeUnderTest) -> None:
    assert node.run("burns_in_child", cpu_s=0.4).state == "SUCCESS"
    eventually(lambda: cpu_s(node, "burns_in_child") >= 0.4, what="its child's CPU time is told")


def test_cpu_time_of_one_that_is_killed_at_last(node: NodeUnderTest) -> None:
    """It holds the interpreter all the time, so that its worker can tell nothing itself."""
    assert node.run("burns_to_death", cpu_s=0.4).state == "FAILED"
    eventually(lambda: 0.4 <= cpu_s(node, "burns_to_death") < 0.9, what="the kernel's word")
    assert used(node, "task_max_rss_bytes_count", "burns_to_death") == 1


def test_cpu_time_of_one_that_goes_on_is_told_meanwhile(node: NodeUnderTest) -> None:
    handle = node.submit("spins")
    eventually(lambda: cpu_s(node, "spins") > 0.2, what="its CPU time is told while it runs")
    handle.cancel(by="tester", reason="seen")
    assert handle.wait(20).state == "CANCELED"


def test_what_is_written_to_storage(node: NodeUnderTest) -> None:
    path = node.root / "written"  # on the disk that the tests run on
    assert node.run("writes", path=str(path), size=MIB).state == "SUCCESS"

    def told() -> bool:
        written = used(node, "task_io_bytes_total", "writes", direction="written")
        return MIB <= written < 2 * MIB

    if _counts_storage(node.root):
        eventually(told, what="a megabyte was written")


def _counts_storage(folder: Path) -> bool:
    """Say whether the kernel counts what is written there: not in a file system in memory."""
    (mount,) = [
        line.split()[2]
        for line in Path("/proc/mounts").read_text().splitlines()
        if line.split()[1] == _mount_of(folder)
    ][-1:]
    return mount not in ("tmpfs", "ramfs", "9p")


def _mount_of(folder: Path) -> str:
    while not folder.is_mount():
        folder = folder.parent
    return str(folder)


def test_bytes_of_connections(node: NodeUnderTest) -> None:
    assert node.run("talks", size=100_000).state == "SUCCESS"
    for direction in ("received", "sent"):
        eventually(
            lambda way=direction: (
                used(node, "task_network_bytes_total", "talks", direction=way) == 100_000
            ),
            what=f"what was {direction}",
        )


def test_bytes_of_a_connection_that_is_closed_meanwhile_are_those_seen(
    node: NodeUnderTest,
) -> None:
    assert node.run("talks_and_closes", size=50_000, s=2.5).state == "SUCCESS"

    def told() -> bool:
        return (
            used(node, "task_network_bytes_total", "talks_and_closes", direction="sent") == 50_000
        )

    eventually(told, what="its pulse has seen it")


def test_memory_is_that_of_the_worker(node: NodeUnderTest) -> None:
    view = node.run("noop")
    (attempt,) = node.attempts(view.task_id)
    eventually(lambda: used(node, "task_max_rss_bytes_count", "noop") == 1)
    assert used(node, "task_max_rss_bytes_sum", "noop") == attempt.usage["max_rss_bytes"]
    for _ in range(20):
        node.run("noop")
    eventually(lambda: used(node, "task_max_rss_bytes_count", "noop") == 21)


def test_open_descriptors_while_it_runs(node: NodeUnderTest) -> None:
    handle = node.submit("opens", number=60, s=4)
    eventually(lambda: 60 < used(node, "task_open_fds", "opens") < 120, what="they are seen")
    assert handle.wait(20).state == "SUCCESS"
    eventually(lambda: used(node, "task_open_fds", "opens") == 0, what="and then no more")
