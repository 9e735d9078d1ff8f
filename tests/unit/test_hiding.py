"""What an ending may not tell of its params."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from supervisor.model import outcome
from supervisor.model.record import Ending
from supervisor.model.retry import RetryPolicy
from supervisor.node.hiding import without_secrets

NOW = datetime(2026, 5, 20, tzinfo=UTC)
SECRET = "blue chair 77"


def ending(params: object, marked: tuple[str, ...] = ()) -> Ending:
    return Ending(
        task_id="task_1", attempt=1, policy=RetryPolicy(max_retries=0), ended_at=NOW,
        outcome=outcome.raised("ValueError", f"refused {SECRET}", f"Traceback … {SECRET}"),
        log_tail=f"using {SECRET}\n", params_json=json.dumps(params), marked=marked,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("params", "marked"),
    [
        ({"token": SECRET}, ()),
        ({"token": SECRET, "data": "x" * 70_000}, ()),  # however long they are
        ({"colour": SECRET}, ("colour",)),
        ({"deep": [{"password": SECRET}]}, ()),
    ],
)
def test_no_word_of_it_holds_a_secret_param(params: object, marked: tuple[str, ...]) -> None:
    cleaned = without_secrets(ending(params, marked))
    told = cleaned.outcome
    assert SECRET not in f"{told.error} {told.traceback} {cleaned.log_tail}"
    assert told.error is not None
    assert told.error.startswith("refused ")
    assert without_secrets(cleaned) == cleaned


def test_what_is_no_secret_stays() -> None:
    cleaned = without_secrets(ending({"colour": SECRET}))
    assert cleaned.outcome.error == f"refused {SECRET}"
    assert cleaned.log_tail == f"using {SECRET}\n"
