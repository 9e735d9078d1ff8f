"""What the live demo does when: which tasks are submitted how often, and how people step in.

Pure: moments and dice go in, what is to be done comes out. Rates suit a host of two cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

Params = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Tasks of one type that come again and again, `several` at a time; some with a priority.

    Units: `every_s`, `first_s` and `delay_s` (how long after the submit it is due) in seconds.
    """

    type: str
    every_s: float
    params: Callable[[Random], Params]
    several: int = 1
    first_s: float = 0.0
    delay_s: float = 0.0
    priority: int = 5
    #: Two dice: about every n-th submit is written twice under one key, and exists once.
    doubled: int = 0
    by: str = "shop"
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Act:
    """Something that people, or the kernel, do: `kind` to tasks of `about` (a type or a queue)."""

    kind: str
    about: str
    every_s: float
    first_s: float
    reason: str
    by: str = "ada"


CANCEL, RERUN, PAUSE, RESUME = "cancel", "rerun", "pause", "resume"
#: What is done to the worker that runs a task.
KILL, FREEZE = "kill", "freeze"


def _mail(dice: Random) -> Params:
    return {"to": f"customer{dice.randrange(97)}@example.org"}


def _order(dice: Random) -> Params:
    amount = "twelve" if dice.random() < 0.02 else f"{dice.uniform(5, 200):.2f}"
    return {
        "order": dice.randrange(10_000, 99_999),
        "amount": amount,
        "card": "4000 0000 0000 0002",
    }


def _none(_dice: Random) -> Params:
    return {}


STREAMS: tuple[Stream, ...] = (
    Stream(type="send_mail", every_s=0.5, params=_mail),
    Stream(type="send_mail", every_s=75, first_s=30, several=80, params=_mail, priority=3,
           by="newsletter", tags=("newsletter",)),
    Stream(type="send_mail", every_s=20, first_s=3, params=_mail, delay_s=15, by="cron"),
    Stream(type="charge_order", every_s=0.8, params=_order, priority=7, doubled=10),
    Stream(type="import_rows", every_s=5, first_s=1, by="warehouse",
           params=lambda dice: {"rows": dice.randrange(40, 160)}),
    Stream(type="monthly_report", every_s=9, first_s=2, by="bob",
           params=lambda dice: {"month": f"2026-{dice.randrange(1, 12):02d}",
                                "pages": dice.randrange(6, 18)}),
    Stream(type="convert_image", every_s=4, first_s=2, by="web",
           params=lambda dice: {"name": f"cat{dice.randrange(999)}.png",
                                "pixels": dice.randrange(4, 40) << 20}),
    Stream(type="fetch_rates", every_s=6, params=lambda dice: {"count": dice.randrange(5, 40)}),
    Stream(type="read_archives", every_s=35, first_s=12, params=lambda dice: {
        "files": dice.randrange(3, 9)}),
    Stream(type="search_archive", every_s=25, first_s=8, params=lambda _: {"words": "invoice"}),
    Stream(type="decode_video", every_s=110, first_s=20, params=lambda _: {"name": "party.mkv"}),
    Stream(type="transfer", every_s=80, first_s=6, priority=8,
           params=lambda _: {"a": "account 1", "b": "account 2"}),
    Stream(type="ask_ledger", every_s=80, first_s=26, priority=8, params=lambda _: {"rows": 100}),
    Stream(type="count_forever", every_s=80, first_s=46, priority=8, params=_none),
    Stream(type="ignore_everything", every_s=80, first_s=66, priority=8, params=_none),
)  # fmt: skip

ACTS: tuple[Act, ...] = (
    Act(CANCEL, "monthly_report", 25, 14, "not needed any more"),
    Act(CANCEL, "ignore_everything", 80, 66, "it hangs", by="bob"),
    Act(KILL, "convert_image", 40, 18, "killed as the kernel would when memory is short"),
    Act(FREEZE, "import_rows", 95, 35, "stopped as by a debugger that was left open"),
    Act(RERUN, "charge_order", 45, 40, "the amount is mended", by="bob"),
    Act(PAUSE, "mail", 100, 55, "the mail server is being moved"),
    Act(RESUME, "mail", 100, 67, "it is back"),
)  # fmt: skip

ITEMS: tuple[Stream | Act, ...] = (*STREAMS, *ACTS)
#: A host that cannot follow is given no more until it has caught up.
MOST_WAITING = 400


@dataclass(slots=True)
class Plan:
    """Says what is due; `dice` are its own, so that two demos of one seed ask for the same."""

    dice: Random = field(default_factory=lambda: Random(7))
    _next: dict[int, float] = field(default_factory=dict)

    def due(self, age_s: float) -> Iterator[Stream | Act]:
        """Yield what is due at this age of the demo; what was missed comes once, not often."""
        for place, item in enumerate(ITEMS):
            at = self._next.get(place, item.first_s)
            if at <= age_s:
                self._next[place] = max(at + item.every_s, age_s)
                yield item
