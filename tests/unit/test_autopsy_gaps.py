"""Sections with gaps, as a bundle cuts them or another version writes them, are diagnosed too."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import test_autopsy_rule_asleep as asleep
import test_autopsy_rule_busy as busy
import test_autopsy_rule_database as database
import test_autopsy_rule_leak as leak
import test_autopsy_rule_lock as lock
import test_autopsy_rule_loop as loop
import test_autopsy_rule_peer as peer
import test_autopsy_rule_whole as whole
from handmade import child, frame, inside, motion, seen, sleeps, socket, task, thread, wait
from hypothesis import given, settings
from hypothesis import strategies as st

from autopsy.bundle import encode
from autopsy.cause import MEANINGS
from autopsy.diagnose import diagnose
from autopsy.shape import fitted

RULES = (asleep, busy, database, leak, lock, loop, peer, whole)
SECTIONS = {
    *("process", "movement", "stacks", "motion", "thread_locks", "asyncio", "pools", "fds"),
    *("sockets", "children", "locks", "databases", "host", "memory", "growth", "heap"),
}
# What stands where something else stood.
_WRONG: tuple[Any, ...] = (None, [], {}, "", 0, -1, 99, "x", True, 1.5, {"cut": 3}, [{"cut": 3}])
_MOSTLY = (None, {"cut": 3}, "x", -1)
Path = tuple[str | int, ...]


def merged() -> dict[str, Any]:
    """Make one patient with something of every kind."""
    parts = [
        database.TABLE["postgresql: a row, through another process, that it has itself"][0],
        database.TABLE["redis: a lock of the client library"][0],
        database.TABLE["sqlite: both have the file"][0],
    ]
    databases = {name: value for part in parts for name, value in part["databases"].items()}
    return {
        **leak.memory(70, 50, 0.1, items=50_000),
        **seen(
            thread(syscall="read", args=[3, 0], waits_on=[3], run_delay_ns=0),
            sleeps(11, 5.0, run_delay_ns=1),
            thread(12, syscall="epoll_wait", waits_on=[4]),
            stacks=[
                database.DRIVER,
                [frame("beat", inside=["LOCK"], loop="while True")],
                loop.IDLE,
            ],
            motion=motion(90, lines=2),
            thread_locks=inside([lock.lock("0x1", 11, held_at=frame("f"))], wait()),
            asyncio={
                "total": 1000,
                "tasks": [task("0xa", *loop.READS, holds=[{"id": "0x1", "name": "A"}])],
                "shapes": [{"count": 900, "stack": [frame("get")]}],
                "cycles": [["0xa"]],
            },
            pools={"pools": [{"kind": "QueuePool", "size": 1, "checked_out": 1}]},
            fds=peer.fds("pipe:[5]", **{"pipe:[5]": [peer.STRANGER]}),
            sockets={"sockets": [socket(4), socket(9, state="LISTEN")]},
            children={"children": [child(pipes=["pipe:[5]"])]},
            locks={"locks": [peer.held(81, command_line=["cron"])]},
            databases=databases,
            host={"cgroup": {"cpu": {"throttled_ratio": 0.6}}},
        ),
    }


PATIENTS = [merged(), *(sections for rule in RULES for sections, *_ in rule.TABLE.values())]


def paths_in(value: Any, under: Path = ()) -> list[Path]:
    """Return the path of every value in a tree."""
    entries: Any = ()
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value[:40])
    found: list[Path] = []
    for key, entry in entries:
        found += [(*under, key), *paths_in(entry, (*under, key))]
    return found


def mutilated(sections: dict[str, Any], path: Path, change: Callable[[Any], Any] | None) -> None:
    """Change the value at the path, or remove it; a path that is not there any more is let be."""
    at: Any = sections
    for key in path[:-1]:
        try:
            at = at[key]
        except (KeyError, IndexError, TypeError):
            return
    there = (isinstance(at, dict) and path[-1] in at) or (
        isinstance(at, list) and isinstance(path[-1], int) and path[-1] < len(at)
    )
    if there and change is None:
        del at[path[-1]]
    elif there and change is not None:
        at[path[-1]] = change(at[path[-1]])


def cut_short(value: Any) -> Any:
    """Cut a list or an object as a bundle does."""
    if isinstance(value, list):
        return [*value[:1], {"cut": len(value)}]
    return {**dict(list(value.items())[:1]), "cut": 1} if isinstance(value, dict) else value


@st.composite
def with_gaps(draw: st.DrawFn) -> dict[str, Any]:
    """Take one of the patients and mutilate it in a few places."""
    sections = json.loads(json.dumps(draw(st.sampled_from(PATIENTS))))
    places = paths_in(sections)
    for path in draw(st.lists(st.sampled_from(places), min_size=1, max_size=6)):
        wrong = draw(st.sampled_from(_WRONG))
        change = draw(st.sampled_from((None, cut_short, lambda _, wrong=wrong: wrong)))
        mutilated(sections, path, change)
    return sections


def assert_sound(sections: dict[str, Any]) -> None:
    found = diagnose(sections)
    sure = [one.confidence for one in found]
    assert found
    assert sure == sorted(sure, reverse=True)
    assert all(0 <= one <= 1 for one in sure)
    assert {one.code for one in found} <= set(MEANINGS)
    assert len({one.code for one in found}) == len(found)
    lines = [line for one in found for line in one.evidence]
    assert all(one.evidence for one in found)
    assert {name for line in lines for name in line.partition(": ")[0].split(", ")} <= SECTIONS


@given(with_gaps())
@settings(max_examples=400, deadline=None)
def test_any_gap_leaves_a_sound_diagnosis(sections: dict[str, Any]) -> None:
    assert_sound(sections)


def test_every_value_may_be_missing_or_wrong() -> None:
    patient = merged()
    for path in paths_in(patient):
        for change in (None, cut_short, *(lambda _, wrong=one: wrong for one in _MOSTLY)):
            sections = json.loads(json.dumps(patient))
            mutilated(sections, path, change)
            assert_sound(sections)


@pytest.mark.parametrize("cap_bytes", [20, 200, 400, 800, 1600, 3200])
def test_what_a_bundle_has_cut_is_diagnosed(cap_bytes: int) -> None:
    sections = {name: encode(payload, cap_bytes)[0] for name, payload in merged().items()}
    assert_sound({name: json.loads(payload) for name, payload in sections.items()})


@pytest.mark.parametrize(
    ("section", "given", "expected"),
    [
        (
            "sockets",
            {"sockets": [socket(), {"cut": 9}, None, {"fd": "3"}], "left_out": 1},
            {"sockets": [socket()], "left_out": 1},
        ),
        ("children", {"children": {"cut": 1}, "more": 2}, {"more": 2}),
        (
            "stacks",
            {"samples": [], "stacks": [[frame("f"), {"cut": 1}], {"cut": 2}, [frame("g")]]},
            {"samples": [], "stacks": [[frame("f")], [], [frame("g")]]},
        ),
        ("process", {"status": {"PPid": "7", "SigCgt": "zz"}}, {"status": {"PPid": "7"}}),
        ("growth", {"points": [[0, 1, 2], [0], [0, None]]}, {"points": [[0, 1]]}),
        ("motion", {"threads": [{"tid": 1}]}, {"threads": []}),
        ("movement", {}, {"alive": True, "reaped": False}),
        ("heap", {}, {}),
        ("memory", {"anonymous_bytes": float("nan")}, {}),
        ("a section of another version", {"x": [None]}, {"x": [None]}),
    ],
)
def test_a_payload_is_made_whole(
    section: str, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert fitted({section: given}) == {section: expected}


def test_what_is_whole_stays_as_it_is() -> None:
    once = fitted(PATIENTS[0])
    assert fitted(once) == once
    assert diagnose(once) == diagnose(PATIENTS[0])


def test_a_section_that_is_no_object_is_left_out() -> None:
    assert fitted({"process": None, "fds": [], "host": {}}) == {"host": {}}  # type: ignore[dict-item]


def test_every_cause_has_a_handmade_patient() -> None:
    rows = [row for rule in RULES for row in rule.TABLE.values()]
    assert {code for _, expected, *_ in rows for code, _ in expected} == set(MEANINGS)
