"""The report: each thing once, readable, and nothing of it lost to an odd fact."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from autopsy.bundle import Heading
from autopsy.report import render_text
from autopsy.report.story import story
from autopsy.report.text import part_lines
from autopsy.section import Section, Status

HEADING = Heading(
    pid=7, start_ticks=1, why="it hangs", host="here", python="3.11", captured_at="now",
    budget_s=1.0, duration_ms=5.0, status="partial", tools={}, diagnosis=(),
)  # fmt: skip


def section(name: str, **payload: Any) -> Section:
    return Section(name, Status.OK, payload=payload)


def record(text: str, level: int = logging.INFO, logger: str = "supervisor.task") -> dict[str, Any]:
    return {"seq": 1, "created": 0.25, "level": level, "logger": logger, "text": text}


def shown(records: list[dict[str, Any]], output: str) -> list[str]:
    """Return the report's lines between the heading and the sections."""
    text = render_text(HEADING, [section("logs", records=records), section("output", text=output)])
    lines = text.splitlines()
    return lines[4 : lines.index("Sections") - 1]


def test_a_log_record_is_told_once_and_its_level_by_name() -> None:
    output = "printed\n2026-11-29 19:00:00,123 INFO supervisor.task: sending\nprinted too\n"
    assert shown([record("sending")], output) == [
        "The last log record",
        "-------------------",
        "1970-01-01T00:00:00.250+00:00 INFO supervisor.task: sending",
        "",
        "End of its output, but for the log records above",
        "------------------------------------------------",
        "printed",
        "printed too",
    ]


def test_a_record_of_several_lines_is_told_once() -> None:
    text = "it failed\nTraceback (most recent call last):\nOSError: no"
    lines = shown([record(text, logging.ERROR)], f"12:00 ERROR supervisor.task: {text}\n")
    assert [line for line in lines if "OSError" in line] == ["OSError: no"]
    assert not [line for line in lines if line.startswith("End of its output")]


@pytest.mark.parametrize(
    "output",
    [
        "sending\n",  # printed, not logged
        "INFO supervisor.task: sending it\n",
        "INFO supervisor.task: sending\nINFO supervisor.task: sending\n",  # one is no record
    ],
)
def test_output_that_is_no_record_stays(output: str) -> None:
    assert shown([record("sending")], output)[-1] == output.splitlines()[-1]


FACTS = {
    "task_id": "task_1", "attempt": 2, "type": "sum", "queue": "default", "submitted_by": "anna",
    "node_id": "n1", "worker_id": "w1", "pid": 7,
    "limits": {
        "timeout_s": 30.0, "soft_timeout_s": 25.5, "cancel_grace_s": 10,
        "memory_limit_bytes": 512 * 2**20,
    },
    "stop_wish": {"kind": "cancel", "by": "anna", "reason": "wrong month"},
    "calls": [
        {"service": "payments", "number": 1, "for_s": 312.04},
        {"service": "mail", "number": 3, "for_s": 2},
    ],
    "progress": {"done": 46.0, "total": 300.0},
    "max_rss_bytes": 54 * 2**20,
    "exit": "killed by signal 9 (SIGKILL)",
    "exit_detail": "oom_kill of control group /a did not rise",
    "last_words": "Fatal Python error: Aborted\n\nCurrent thread",
    "looks": [
        {
            "age_s": 0.5, "beats": 3, "progress_done": 46.0, "progress_changes": 2,
            "rss_bytes": 2**20, "cpu_s": 0.1, "proc_state": "S",
        },
        {"age_s": 1.5, "beats": 4, "proc_state": "R"},
    ],
}  # fmt: skip


def told(facts: dict[str, Any]) -> list[str]:
    part = story(facts)
    return list(part_lines(part)) if part else []


def test_the_facts_are_told_readably() -> None:
    assert told(FACTS) == [
        "",
        "What the supervisor knew",
        "------------------------",
        "task task_1 attempt 2, type sum, queue default, submitted by anna",
        "worker w1 (pid 7), node n1",
        "limits: timeout 30 s, soft timeout 25.5 s, cancel grace 10 s, memory 512.0 MiB",
        "asked to stop: cancel by anna: wrong month",
        "in ctx.call('payments') for 312.0 s",
        "in ctx.call('mail') for 2.0 s (3 calls, the oldest)",
        "progress 46 of 300 when last seen",
        "most memory used: 54.0 MiB",
        "exit: killed by signal 9 (SIGKILL)",
        "exit, more exactly: oom_kill of control group /a did not rise",
        "what the interpreter wrote last:",
        "Fatal Python error: Aborted",
        "",
        "Current thread",
        "what the probes had seen (2 looks, the last 2 here, newest last):",
        "  at s  state  CPU s   memory  heartbeats  progress",
        "   0.5  S       0.10  1.0 MiB           3      46.0",
        "   1.5  R          ?        ?           4",
    ]


def test_odd_facts_cost_nothing() -> None:
    assert told({"why": "asked"}) == []
    odd = dict.fromkeys(FACTS, 3) | {"looks": [None, "x"], "limits": {"timeout_s": "long"}}
    assert len(told(odd)) == 10
    assert "What the supervisor knew" in render_text(HEADING, [section("facts", **odd)])
