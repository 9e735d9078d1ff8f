"""What attempts have used and said, from workers' messages into the account that is scraped.

Secret kept here: sums become differences. A worker tells what it has used since its birth, and an
attempt what it has said since its beginning; so a message that comes late or never is no loss, and
the shortest attempts of one type after the other are put down together, once a second.
"""

from __future__ import annotations

from dataclasses import dataclass

from supervisor.model.outcome import Outcome
from supervisor.model.states import REQUEUE_REASONS, State
from supervisor.node.floor import NS_PER_S, Attempt, Floor, Slot
from supervisor.node.port import Exited
from supervisor.worker import wire

#: Calls of one service in one attempt that are told one by one when it is ended.
CALLS_MOST = 1000
_NOTHING_SAID = wire.Tally()


@dataclass(slots=True)
class _Sheet:
    """What one worker has told that is not put down yet: all of one type."""

    type: str
    put_down: wire.Spent
    spent: wire.Spent
    size_bytes: int = 0
    attempts: int = 0


class Accounting:
    """Keeps the account of one node."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._account = floor.metrics.account
        self._sheets: dict[str, _Sheet] = {}

    def begin(self, slot: Slot, spent: wire.Spent) -> None:
        """A worker is ready: what its birth took is no attempt's."""
        self._sheets[slot.worker_id] = _Sheet("", spent, spent)

    def tallied(self, slot: Slot, attempt: Attempt, message: wire.Tallied) -> None:
        """An attempt goes on."""
        self._sheet(slot, attempt.claim.type).spent = message.spent
        if message.tally is not None:
            self._say(attempt, message.tally)

    def finished(self, slot: Slot, attempt: Attempt, message: wire.Finished) -> None:
        """An attempt has reported its end."""
        sheet = self._sheet(slot, attempt.claim.type)
        if message.spent is not None:
            sheet.spent = message.spent
        if message.max_rss_bytes != sheet.size_bytes:
            self._put_down(sheet)
            sheet.size_bytes = message.max_rss_bytes
        sheet.attempts += 1
        if message.tally is not None:
            self._say(attempt, message.tally)

    def died(self, slot: Slot, attempt: Attempt, exit: Exited, outcome: Outcome) -> None:
        """An attempt has ended with its worker: what that used at last is the kernel's word."""
        sheet = self._sheet(slot, attempt.claim.type)
        if exit.spent is not None:
            sheet.spent = _and_network(exit.spent, sheet.spent)
        self._account.peak(sheet.type, exit.max_rss_bytes)
        stopped = outcome.state is State.CANCELED or outcome.reason in REQUEUE_REASONS
        said = attempt.said
        if said is not None and not stopped:  # else the end says nothing of who was called
            self._fail(said)

    def gone(self, slot: Slot) -> None:
        """A worker was reaped and all its attempts have ended."""
        sheet = self._sheets.pop(slot.worker_id, None)
        if sheet is not None:
            self._put_down(sheet)

    def show(self) -> None:
        """Put down what is not yet, and how it stands now."""
        for sheet in self._sheets.values():
            self._put_down(sheet)
        open_fds: dict[str, int] = {}
        in_flight: dict[str, int] = {}
        for _, attempt in self._floor.running():
            kind, pulse = attempt.claim.type, attempt.pulse
            if pulse is not None:
                open_fds[kind] = max(open_fds.get(kind, 0), pulse.last.open_fds)
            for service, calls in (attempt.said or _NOTHING_SAID).in_flight.items():
                in_flight[service] = in_flight.get(service, 0) + calls.number
        self._account.stand(open_fds, in_flight)

    def _sheet(self, slot: Slot, kind: str) -> _Sheet:
        sheet = self._sheets.get(slot.worker_id)
        if sheet is None:
            sheet = self._sheets[slot.worker_id] = _Sheet(kind, wire.Spent(), wire.Spent())
        elif sheet.type != kind:
            self._put_down(sheet)
            sheet.type = kind
        return sheet

    def _put_down(self, sheet: _Sheet) -> None:
        if sheet.spent is not sheet.put_down:
            now, before = sheet.spent, sheet.put_down
            more = (
                now.user_s - before.user_s,
                now.system_s - before.system_s,
                now.read_bytes - before.read_bytes,
                now.written_bytes - before.written_bytes,
                now.received_bytes - before.received_bytes,
                now.sent_bytes - before.sent_bytes,
            )
            self._account.spend(sheet.type, more)
            sheet.put_down = now
        if sheet.attempts:
            self._account.peak(sheet.type, sheet.size_bytes, sheet.attempts)
            sheet.attempts = 0

    def _say(self, attempt: Attempt, now: wire.Tally) -> None:
        kind, before = attempt.claim.type, attempt.said or _NOTHING_SAID
        attempt.said = now
        account = self._account
        for name, number in now.counts.items():
            account.count("counts", kind, name, number - before.counts.get(name, 0.0))
        for name, number in now.codes.items():
            account.count("codes", kind, name, number - before.codes.get(name, 0.0))
        for name, timing in now.steps.items():
            account.time("steps", kind, name, *_more(timing, before.steps.get(name)))
        for name, timing in now.calls.items():
            account.time("calls", kind, name, *_more(timing, before.calls.get(name)))

    def _fail(self, said: wire.Tally) -> None:
        now_ns = self._floor.clock.mono() * NS_PER_S
        for service, calls in said.in_flight.items():
            for _ in range(min(calls.number, CALLS_MOST)):
                self._account.fail_call(service, max(0.0, (now_ns - calls.since_ns) / NS_PER_S))


def in_calls(attempt: Attempt, now: float) -> str:
    """Say in words which services the attempt has called that have not answered; '' if none."""
    said = attempt.said
    if said is None or not said.in_flight:
        return ""
    return "in " + ", ".join(
        f"ctx.call({service!r}) for {now - calls.since_ns / NS_PER_S:.1f} s"
        + (f" ({calls.number} calls, the oldest)" if calls.number > 1 else "")
        for service, calls in said.in_flight.items()
    )


def _and_network(all_but: wire.Spent, told: wire.Spent) -> wire.Spent:
    """Return the kernel's last word with what only the worker itself knew."""
    return wire.Spent(
        user_s=all_but.user_s,
        system_s=all_but.system_s,
        read_bytes=all_but.read_bytes,
        written_bytes=all_but.written_bytes,
        received_bytes=told.received_bytes,
        sent_bytes=told.sent_bytes,
    )


def _more(now: wire.Timing, before: wire.Timing | None) -> tuple[list[int], float, int]:
    if before is None:
        return list(now.buckets), now.sum_s, now.errors
    buckets = [new - old for new, old in zip(now.buckets, before.buckets, strict=True)]
    return buckets, now.sum_s - before.sum_s, now.errors - before.errors
