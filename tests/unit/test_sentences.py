"""What `show` says of limits and of ends that are for good."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from supervisor.model.states import Reason, State
from supervisor.store.view import AttemptView, TaskView
from supervisor.words.sentence import by_command, for_good, limits, naming_limit, usage

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def a_task(**other: Any) -> TaskView:
    fields: dict[str, Any] = {
        **dict.fromkeys(TaskView.__dataclass_fields__),
        "task_id": "task_" + "0" * 24 + "8823134a", "state": State.FAILED, "reason": Reason.RAISED,
        "run_after": NOON, "created_at": NOON, "retry_count": 1, "crash_count": 0, "tags": (),
    }  # fmt: skip
    return TaskView(**(fields | other))


def an_attempt(**other: Any) -> AttemptView:
    fields: dict[str, Any] = {
        **dict.fromkeys(AttemptView.__dataclass_fields__),
        "task_id": "task_1", "attempt": 1, "pid": 7, "claimed_at": NOON, "usage": {},
    }  # fmt: skip
    return AttemptView(**(fields | other))


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ({"max_retries": 1}, "1 of 1 retries used"),
        ({"max_retries": 3}, "1 of 3 retries used, and its error is not retried"),
        ({}, "no retry follows, 1 used"),
        ({"state": State.TIMEOUT, "reason": Reason.TIMEOUT}, "1 of 1 retries used"),
        ({"reason": Reason.FORCED}, "a person ended it"),
        ({"reason": Reason.RESULT_INVALID}, "its result cannot be stored, which no retry cures"),
    ],
)
def test_why_it_is_final(task: dict[str, Any], why: str) -> None:
    again = "it runs again only by `supervisor rerun 8823134a --reason …`"
    assert for_good(a_task(**task), by_command(a_task(**task))) == ("final", f"{why}; {again}")


def test_what_goes_on_is_not_final() -> None:
    for state in (State.PENDING, State.RUNNING, State.SUCCESS, State.CANCELED):
        assert for_good(a_task(state=state), "") is None


@pytest.mark.parametrize(
    ("task", "attempts", "told"),
    [
        ({}, [], "those of its type and of the node's settings"),
        ({"timeout": 6.0, "max_retries": 0}, [], "timeout 6 s, retries 0"),
        ({"soft_timeout": math.inf}, [], "no soft one"),
        ({}, [{"timeout": 6.0, "soft_timeout": 5.4}], "timeout 6 s, soft 5.4 s"),
        ({"timeout": 9.0}, [{"timeout": 6.0}, {}], "timeout 6 s, no soft one"),
    ],
)
def test_limits(task: dict[str, Any], attempts: list[dict[str, Any]], told: str) -> None:
    assert limits(a_task(**task), [an_attempt(**one) for one in attempts]) == told


def test_a_sentence_names_the_limit_it_speaks_of() -> None:
    attempt = an_attempt(timeout=6.0, soft_timeout=5.4)
    for text, named in (
        ("ran past its time limit (kill 0.02 s)", "ran past its time limit of 6 s (kill 0.02 s)"),
        ("by its soft time limit at a.py:3", "by its soft time limit of 5.4 s at a.py:3"),
        ("ValueError: no", "ValueError: no"),
        (None, None),
    ):  # fmt: skip
        assert naming_limit(text, attempt) == named


def test_usage_is_in_units_of_people() -> None:
    used = {"cpu_s": 0.00242359, "max_rss_bytes": 2.0**20, "leaked_fds": 12.0}
    assert usage(an_attempt(usage=used)) == "cpu 2.4 ms, max_rss 1.0 MiB, leaked_fds 12"
