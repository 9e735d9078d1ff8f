"""The names that a decorator declares: read, checked, and told to the node."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor import App
from supervisor.errors import ConfigError
from supervisor.model.label import DECLARED_MOST, NO_WORDS
from supervisor.settings import TaskOptions
from supervisor.worker import wire
from supervisor.worker.zygote import describe_types


def body(ctx: Any) -> None:
    """Do nothing."""


def test_what_is_declared_reaches_the_node() -> None:
    app = App()
    app.task(
        counts=("rows", "rows", "mails"),
        error_codes=[404, "E-1"],
        steps={"read"},
        calls=("payments",),
        expected_duration=2,
    )(body)
    (info,) = describe_types(app)
    words = {
        "counts": ("rows", "mails"),
        "codes": ("404", "E-1"),
        "steps": ("read",),
        "calls": ("payments",),
    }
    assert app.types["body"].words == words
    assert info == wire.TypeInfo("body", {"expected_duration": 2.0}, (), words)
    assert TaskOptions(**info.options) == TaskOptions(expected_duration=2.0)  # type: ignore[arg-type]
    decoder = wire.Decoder[Any](wire.Booted)
    assert decoder.decode(wire.encode(wire.Booted((info,)))).types == (info,)


def test_what_is_not_declared_is_not_told() -> None:
    app = App()
    app.task(body)
    assert app.types["body"].words is NO_WORDS
    assert describe_types(app) == (wire.TypeInfo("body"),)


@pytest.mark.parametrize(
    ("declared", "argument"),
    [
        ({"counts": "rows"}, "counts must be a tuple of names"),
        ({"steps": 7}, "steps must be a tuple of names"),
        ({"steps": None}, "steps must be a tuple of names"),
        ({"calls": ("a b",)}, "calls: a name must be text of 1 to 64 letters"),
        ({"counts": (7,)}, "counts: a name must be text"),
        ({"counts": ([],)}, "counts: a name must be text"),
        ({"counts": ("ok", "")}, "counts: a name must be text"),
        ({"error_codes": (7.5,)}, "error_codes: a name must be text"),
        ({"error_codes": (True,)}, "error_codes: a name must be text"),
        ({"counts": ("x" * 65,)}, "counts: a name must be text"),
        ({"counts": ("_other",)}, "counts: a name must be text"),
        (
            {"error_codes": range(5)},
            "error_codes must be a tuple of names",
        ),
        (
            {"error_codes": tuple(range(DECLARED_MOST + 1))},
            "error_codes declares 101 names, the most is 100",
        ),
        ({"expected_duration": 0}, "expected_duration must be seconds above 0, not 0"),
        ({"expected_duration": "1"}, "expected_duration must be seconds above 0, not '1'"),
        ({"expected_duration": True}, "expected_duration must be seconds above 0, not True"),
        ({"expected_duration": float("nan")}, "expected_duration must be seconds above 0, not nan"),
        ({"expected_duration": float("inf")}, "expected_duration must be seconds above 0, not inf"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_bad_declaration_names_the_argument(declared: dict[str, Any], argument: str) -> None:
    with pytest.raises(ConfigError) as raised:
        App().task(**declared)(body)
    assert raised.value.message.startswith(f"task body: {argument}")
    assert raised.value.remedy
