"""One dedup key from many processes and threads at once: one row, and everybody is told of it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from harness import REPOSITORY, SUCCESS, NodeUnderTest, begun

from supervisor.model.states import State

PROGRAM = """
import sys, threading
from supervisor import App
app = App(store=sys.argv[1])
start = threading.Barrier(5)
def submit():
    start.wait()
    handle = app.submit({"type": "quick", "params": {"n": 1}, "dedup_key": sys.argv[2]})
    sys.stdout.write(f"{handle.task_id} {handle.created}\\n")
threads = [threading.Thread(target=submit) for _ in range(5)]
print("ready", flush=True); sys.stdin.readline()
[t.start() for t in threads]; [t.join() for t in threads]
app.client.close()
"""


def test_fifty_parallel_submits(node: NodeUnderTest) -> None:
    """Ten processes of five threads each; the node runs and ends the task meanwhile."""
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, node.url, "report:1"],
            cwd=REPOSITORY, env=node.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(10)
    ]  # fmt: skip
    for program in programs:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
    for program in programs:
        assert program.stdin is not None
        program.stdin.write("go\n")
        program.stdin.flush()
    answers = [line.split() for p in programs for line in p.communicate(timeout=30)[0].splitlines()]
    assert [p.returncode for p in programs] == [0] * 10
    assert len(answers) == 50
    ids = {task_id for task_id, _ in answers}
    assert len(ids) == 1
    assert sorted(created for _, created in answers) == ["False"] * 49 + ["True"]
    (task_id,) = ids
    assert node.query("SELECT task_id FROM tasks WHERE dedup_key = 'report:1'") == [(task_id,)]
    assert node.app.wait(task_id, 10)[0].state is State.SUCCESS
    assert node.moves(task_id) == [*begun(), ("RUNNING", SUCCESS, "node", "returned")]


def test_threads_of_one_client(node: NodeUnderTest) -> None:
    handles = []
    threads = [
        threading.Thread(
            target=lambda: handles.append(node.submit("quick", spec={"dedup_key": "one:2"}))
        )
        for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({h.task_id for h in handles}) == 1
    assert [h.created for h in handles].count(True) == 1


def test_key_is_free_again_after_a_failure_only(node: NodeUnderTest, tmp_path: Path) -> None:
    failed = node.submit("picky", spec={"dedup_key": "try:3"})
    assert failed.wait(5).state is State.FAILED
    second = node.submit("quick", spec={"dedup_key": "try:3"})
    assert (second.created, second.task_id != failed.task_id) == (True, True)
    assert second.wait(5).state is State.SUCCESS
    third = node.submit("quick", spec={"dedup_key": "try:3"})
    assert (third.created, third.task_id) == (False, second.task_id)
    (refused,) = node.app.rerun(failed.task_id, by="anna", reason="again")
    assert (refused.done, refused.answer) == (False, "dedup key taken")
    assert second.task_id in refused.detail
