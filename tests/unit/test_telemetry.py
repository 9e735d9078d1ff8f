"""Events and log lines: the contract table and what is made from it."""

from __future__ import annotations

import ast
import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import supervisor
from supervisor.telemetry import logs
from supervisor.telemetry.events import EVENTS, LOGGER, emit

SOURCE = Path(supervisor.__file__).parent


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    logger = logging.getLogger(LOGGER)
    before = (list(logger.handlers), logger.level, logger.propagate)
    stream = io.StringIO()
    yield stream
    logger.handlers, logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


class TestEvents:
    def test_names_are_dotted_and_say_what_has_happened(self) -> None:
        irregular = {"held", "lost", "swept", "taken", "ready", "stopping", "unforkable"}
        for name, event in EVENTS.items():
            assert re.fullmatch(r"[a-z]+\.[a-z]+", name), name
            verb = name.split(".")[1]
            assert verb.endswith("ed") or verb in irregular
            assert event.prose.endswith(".")
            assert event.keys == set(event.fields)

    def test_an_event_is_one_line_with_its_fields(self, log: io.StringIO) -> None:
        logs.configure(log)
        emit("signal.received", signal="SIGTERM")
        [line] = lines(log)
        assert line.pop("timestamp")
        assert line == {
            "event": "signal.received",
            "level": "info",
            "logger": "supervisor",
            "signal": "SIGTERM",
        }

    def test_events_below_the_level_cost_no_line(self, log: io.StringIO) -> None:
        logs.configure(log, level=logging.WARNING)
        emit("signal.received", signal="SIGTERM")
        assert log.getvalue() == ""

    def test_what_is_not_in_the_table_is_shown_and_marked(self, log: io.StringIO) -> None:
        logs.configure(log)
        emit("never.declared", thing=1)
        emit("signal.received", number=15)
        assert [(line["event"], line["undeclared"]) for line in lines(log)] == [
            ("never.declared", True),
            ("signal.received", True),
        ]

    def test_every_emit_in_the_source_is_in_the_table(self) -> None:
        wrong = [
            f"{path.relative_to(SOURCE)}:{call.lineno} {name} {sorted(fields)}"
            for path in SOURCE.rglob("*.py")
            for call, name, fields in emits(ast.parse(path.read_text("utf-8")))
            if name not in EVENTS or not agrees(fields, EVENTS[name].keys)
        ]
        assert wrong == []

    def test_every_event_in_the_table_is_emitted(self) -> None:
        told = {
            name
            for path in SOURCE.rglob("*.py")
            for _, name, _ in emits(ast.parse(path.read_text("utf-8")))
        }
        assert EVENTS.keys() - told == set()


def agrees(given: set[str], declared: frozenset[str]) -> bool:
    """Whether a call gives what is declared; after `**more` only what is written out is known."""
    return given - {"**"} <= declared if "**" in given else given == declared


def emits(tree: ast.AST) -> Iterator[tuple[ast.Call, str, set[str]]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func
        called = called.id if isinstance(called, ast.Name) else called
        first = node.args[0]
        if called == "emit" and isinstance(first, ast.Constant):
            yield (
                node,
                str(first.value),
                {word.arg or "**" for word in node.keywords if word.arg != "exc_info"},
            )


class TestLogs:
    def test_a_traceback_is_one_field_of_the_line(self, log: io.StringIO) -> None:
        logs.configure(log)
        try:
            raise ValueError("no")
        except ValueError:
            logging.getLogger("supervisor.node").exception("turn failed: %s", "probe")
        [line] = lines(log)
        assert line["event"] == "turn failed: probe"
        assert line["logger"] == "supervisor.node"
        assert str(line["exception"]).endswith("ValueError: no")

    def test_columns_for_a_terminal(self, log: io.StringIO) -> None:
        logs.configure(log, json=False)
        emit("signal.received", signal="SIGTERM")
        assert "signal.received" in log.getvalue()
        assert "signal=SIGTERM" in log.getvalue()
        assert "\x1b" not in log.getvalue()

    def test_a_second_set_up_replaces_the_first(self, log: io.StringIO) -> None:
        logs.configure(log)
        logs.configure(log)
        emit("signal.received", signal="SIGTERM")
        assert len(lines(log)) == 1
