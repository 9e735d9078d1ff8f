"""A report in pieces: each that a reader looks for, drawn as far as it can be, or why it is not."""

from __future__ import annotations

from report_sample import HEADING, sections

from autopsy.report.piece import pieces
from autopsy.section import Section, Status


def ok(name: str, **payload: object) -> Section:
    return Section(name=name, status=Status.OK, ms=1.0, payload=payload)


def test_every_part_of_a_whole_capture_is_there() -> None:
    made = pieces(HEADING, sections())
    names = [one.name for one in made]
    assert {"waits", "stacks", "ring", "memory", "sockets", "logs", "output"} <= set(names)
    assert names[-2:] == ["unseen", "sections"]
    assert all(one.markup for one in made)


def test_what_is_missing_says_why() -> None:
    gone = Section(name="stacks", status=Status.TIMEOUT, reason="time box of 3 s", ms=3000.0)
    made = {one.name: one for one in pieces(HEADING, [gone, ok("sockets", sockets=[])])}
    assert {name: made[name].why for name in ("stacks", "sockets", "memory")} == {
        "stacks": ("stacks: timeout, time box of 3 s",),
        "sockets": ("sockets: looked at, and there was nothing to tell",),
        "memory": ("memory: not collected in this bundle",),
    }
    assert made["stacks"].markup is None


def test_of_a_long_circle_a_part_is_drawn_that_hangs_together() -> None:
    many = 5000
    locks = [
        {"id": str(n), "name": f"L{n}", "locked": True, "holder_tid": (n + 1) % many}
        for n in range(many)
    ]
    waits = [{"tid": n, "thread": f"T{n}", "for": "lock", "lock": str(n)} for n in range(many)]
    made = pieces(HEADING, [ok("thread_locks", locks=locks, waits=waits)])
    (drawn,) = (one.markup for one in made if one.name == "waits")
    assert drawn is not None
    assert drawn.count('<g class="node') == 40
    assert drawn.count('<g class="edge') >= 39


def test_very_much_output_is_told_by_its_end() -> None:
    records = [{"text": f"record {n}", "logger": "l", "level": 20} for n in range(20_000)]
    made = pieces(HEADING, [ok("logs", records=records), ok("output", text="line\n" * 500_000)])
    by_name = {one.name: one.markup for one in made}
    assert "record 19999" in str(by_name["logs"])
    assert str(by_name["output"]).count("line") == 200
