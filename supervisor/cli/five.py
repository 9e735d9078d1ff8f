"""The five numbers, as the command line tells them: what the metrics show, asked of the store.

Secret kept here: which of them the store alone can tell. Attempts that are alive and make no
progress are known to their nodes only, which tell of them in their metrics; here a zombie is an
attempt whose node is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from supervisor.store.numbers import WINDOW_S, Ended, Numbers
from supervisor.words.roll import Roll
from supervisor.words.text import span

if TYPE_CHECKING:
    from supervisor.store import Store

#: A screen that is drawn every second counts what has ended this often.
COUNT_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Five:
    """The numbers at one moment; `ended` is None when more has ended than can be read."""

    in_queue: int
    lost: int
    ended: tuple[Ended, ...] | None

    def document(self) -> dict[str, Any]:
        """Return them for programs, the rates by type too."""
        ended = self.ended or ()
        return {
            "window_s": WINDOW_S,
            "in_queue": self.in_queue,
            "zombies_lost": self.lost,
            **(_rates(ended[0]) if ended else _NOTHING),
            "types": [{"type": one.type, **_rates(one)} for one in ended[1:]],
        }

    def line(self) -> str:
        """Return them in words; the caller has told what is in the queue."""
        if self.ended is None:
            rates = "more ended than can be counted here"
        else:
            overall = self.ended[0]
            failed, canceled = _share(overall.failed_rate), _share(overall.canceled_rate)
            rates = f"p99 {span(overall.p99_s)}  failed {failed}  canceled {canceled}"
        return f"last {WINDOW_S / 60:.0f} m: {rates}  lost now {self.lost}"


_NOTHING = {"running_duration_p99_seconds": None, "failed_rate": None, "canceled_rate": None}


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _rates(one: Ended) -> dict[str, Any]:
    return {
        "running_duration_p99_seconds": one.p99_s,
        "failed_rate": one.failed_rate,
        "canceled_rate": one.canceled_rate,
        "success": one.success,
        "failed": one.failed,
        "timeout": one.timeout,
        "canceled": one.canceled,
        "requeued": one.requeued,
    }


@dataclass(slots=True)
class Counted:
    """What was counted last, for one who asks again and again: it may be dear."""

    at: datetime | None = None
    ended: tuple[Ended, ...] | None = None

    def since(self, numbers: Numbers, now: datetime) -> tuple[Ended, ...] | None:
        """Return it, counted anew if it is too old."""
        if self.at is None or abs((now - self.at).total_seconds()) >= COUNT_EVERY_S:
            self.at, self.ended = now, numbers.ended(now)
        return self.ended


def five_numbers(
    store: Store, now: datetime, in_queue: int, roll: Roll, counted: Counted | None = None
) -> Five:
    """Ask the store; also lost is what runs on a node that is seen to be gone."""
    numbers = Numbers(store)
    ended = (counted or Counted()).since(numbers, now)
    return Five(in_queue, numbers.lost(now, dead=roll.gone), ended)
