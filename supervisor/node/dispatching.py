"""Claiming work for free places, handing it to workers, and taking back what waits too long.

Secret kept here: when to claim and how many. A worker holds one attempt; behind a short one (by the
measured mean of its type) more short ones may wait, for 50 ms in all, and can still be taken back
or canceled. Claims go out one batch at a time, so that batches grow under load. Where the bell
names ids, those are claimed, and the table is only looked through (a scan) now and then.
"""

from __future__ import annotations

from datetime import datetime

from supervisor.model import outcome as ended
from supervisor.model.record import Claim, Owner
from supervisor.model.spawning import LOOK_AHEAD_S, is_short, look_ahead
from supervisor.node import port
from supervisor.node.closing import Closing
from supervisor.node.floor import Attempt, Floor, Slot
from supervisor.node.listening import Listening
from supervisor.worker.wire import Assign

#: An idle worker reads what it is handed within microseconds; one that does not is replaced.
UNREAD_S = 1.0
#: What waits is looked at this often: under load it is hundreds of attempts.
CHECK_EVERY_S = 0.005
#: Of what waits behind others none waits longer: they have become slower than they were.
LONGEST_WAIT_S = 4 * LOOK_AHEAD_S
#: A type counts for the look-ahead as long as one of it was claimed within this time.
IN_PLAY_S = 1.0
#: Endings of short attempts wait at most this long for company, unless a claim is being written.
HOLD_S = 0.004
#: Look-ahead is claimed this many at a time: a commit of more keeps other writers waiting.
BATCH = 128
#: Polls pause for this many times what one took, up to a limit: the bell is what counts.
POLL_PAUSES, POLL_MOST_S = 20, 2.0
#: A server is polled less often than a file, and hardly ever while its bell is heard.
SERVER_POLL_S, SCAN_EVERY_S = 0.2, 1.0
#: A bell that names ids is given this long to name more, before the table is looked through.
BELL_S = 0.02


class Dispatching:
    """Claims and assignments."""

    def __init__(self, floor: Floor, listening: Listening, closing: Closing, poll_s: float) -> None:
        self._floor = floor
        self._poll_s = poll_s if floor.lease is None else max(poll_s, SERVER_POLL_S)
        self._poll_wait_s = self._poll_s
        self._tips: tuple[str, ...] = ()
        self._asked_for: tuple[str, ...] = ()
        self._wanted: int | None = None
        self._served: tuple[tuple[str, ...] | None, frozenset[str]] | None = None
        self._paused: frozenset[tuple[str, int]] = frozenset()
        self._listening = listening
        self._closing = closing
        self._seq = 0
        self._outstanding = self._for_empty = False
        self._hungry = True
        self._greed = 0
        self._polled_at = self._answered_at = self._held_at = self._checked_at = float("-inf")
        self._due_at: datetime | None = None
        self._runs_dry = self._is_withheld = False
        self._in_play: dict[str, float] = {}

    def ring(self, tips: tuple[str, ...] = ()) -> None:
        """Somebody says that there may be work, and which."""
        if tips:
            self._tips += tips
            self._wanted = None  # as many fewer may come in now
        else:
            self._hungry = True

    def dispatch(self, now: float) -> None:
        """Claim for the free places if there may be work for them; hand in what has ended.

        Under load endings wait for the next claim: one commit for both costs half. So they do
        while a claim is being written, since nothing else could be; but a stop must not wait for
        that, since it may hang.
        """
        floor = self._floor
        waits = self._outstanding and floor.stopping is None
        claims = self._claims(now)
        if not floor.endings:
            self._held_at = now
        rests = not self.holds_look_ahead() or now - self._held_at >= HOLD_S
        if claims or (rests and not waits):
            self._held_at = now
            floor.scribe.ask(*floor.take_endings(), *claims)

    def _claims(self, now: float) -> list[port.ClaimFor]:
        floor = self._floor
        if self._outstanding:
            return []
        if not self._may_claim():
            self._let_in(0)
            return []
        scan = self._is_scan_due(now)
        if not scan and not self._tips and not self._hears_ids:
            return []
        takers = self._takers()
        types = floor.claimable(takers)
        if not types:
            return []
        empty = [slot for slot in takers if self._is_empty(slot)]
        depth, short = self._look_ahead(types, now)
        ahead = [] if self._runs_dry else self._rooms_ahead(takers, depth, short, now)
        self._serve(types)
        if not (empty or ahead) or not (scan or self._tips):
            room = len(empty) + len(ahead)
            self._let_in(max(room, self._greed) - len(self._tips) if room else 0)
            return []
        self._let_in(len(ahead))  # as many will be free again when this claim has been written
        self._outstanding, self._for_empty = True, bool(empty)
        if scan:
            self._hungry, self._polled_at = False, now
        owners, behind = [self._place(s) for s in empty], [self._place(s) for s in ahead]
        self._asked_for = tips = self._tips
        self._tips = ()
        queues = floor.settings.queues or None
        return [port.ClaimFor(owners, types, queues, behind, short, tips, scan)]

    @property
    def _hears_ids(self) -> bool:
        listener = self._floor.listener
        return listener is not None and listener.carries_ids

    def _is_scan_due(self, now: float) -> bool:
        """Whether the table is to be looked through: there may be what no bell has named."""
        return now - self._polled_at >= self._scan_wait_s(now)

    def _scan_wait_s(self, now: float) -> float:
        """Return how far apart two looks through the table are as things stand."""
        if self._is_due():
            return self._poll_wait_s if self._is_withheld and not self._hungry else 0.0
        listener = self._floor.listener
        told = self._floor.lease is not None and listener is not None and not listener.away
        names = told and self._hears_ids and (self._tips or now - self._answered_at < BELL_S)
        if self._hungry and not names:
            return 0.0
        return max(self._poll_wait_s, SCAN_EVERY_S) if told else self._poll_wait_s

    def _serve(self, types: tuple[str, ...]) -> None:
        """Let the bell name only what may be started here."""
        listener, served = (
            self._floor.listener,
            (self._floor.settings.queues or None, frozenset(types)),
        )
        if listener is not None and served != self._served:
            self._served = served
            listener.serve(*served)

    def _let_in(self, places: int) -> None:
        """Let the bell name as many ids as there is room for; others may be free for the rest."""
        places = max(0, places)
        if self._floor.listener is not None and places != self._wanted:
            self._wanted = places
            self._floor.listener.want(places)

    def _may_claim(self) -> bool:
        floor = self._floor
        if floor.stopping is not None or floor.store_away or floor.fenced or floor.draining:
            return False
        return bool(floor.types)

    def _is_due(self) -> bool:
        return self._due_at is not None and self._floor.clock.now() >= self._due_at

    def _takers(self) -> list[Slot]:
        """Return who may be given more; one due for recycling gets no more than it takes."""
        most = self._floor.settings.recycle_after_tasks
        return [
            slot
            for slot in self._floor.slots.values()
            if slot.can_take_work and not slot.retiring and slot.assigned + slot.promised < most
        ]

    def _is_empty(self, slot: Slot) -> bool:
        return not slot.attempts and not slot.promised

    def _place(self, slot: Slot) -> Owner:
        slot.promised += 1
        return Owner(slot.worker_id, slot.pid, slot.start_ticks)

    def _look_ahead(self, types: tuple[str, ...], now: float) -> tuple[int, tuple[str, ...]]:
        """Return how many attempts a worker may hold, and which types fit in so many places."""
        means = self._listening.durations
        short = [kind for kind in types if kind in means and is_short(means[kind])]
        since = now - IN_PLAY_S
        depth = look_ahead([means[kind] for kind in short if self._in_play.get(kind, 0.0) > since])
        return depth, tuple(kind for kind in short if means[kind] * depth <= LOOK_AHEAD_S)

    def _rooms_ahead(
        self, takers: list[Slot], depth: int, short: tuple[str, ...], now: float
    ) -> list[Slot]:
        """Offer places behind running short attempts, round robin over the workers."""
        busy = [
            slot
            for slot in takers
            if slot.attempts and self._all_short(slot, short) and self._stuck_s(slot, now) == 0
        ]
        most = self._floor.settings.recycle_after_tasks
        rooms = [
            (slot, min(depth - len(slot.attempts), most - slot.assigned) - slot.promised)
            for slot in busy
        ]
        free = sum(max(0, room) for _, room in rooms)
        if free < min(BATCH, len(busy) * depth / 2):
            return []  # larger batches, fewer commits
        places = [slot for level in range(depth) for slot, room in rooms if level < room]
        return places[:BATCH]

    def _all_short(self, slot: Slot, short: tuple[str, ...]) -> bool:
        return all(attempt.claim.type in short for attempt in slot.attempts.values())

    def _stuck_s(self, slot: Slot, now: float) -> float:
        """Return how long its attempt has run, 0 while that is within the look-ahead."""
        current = slot.current
        ran_s = now - current.started_at if current and current.started_at else 0.0
        return ran_s if ran_s > LOOK_AHEAD_S else 0.0

    def accept(self, claimed: port.Claimed, now: float) -> None:
        """Take in what was claimed and hand it out."""
        floor = self._floor
        self._outstanding = False
        self._held_at = now
        if claimed.scanned:
            self._scanned(claimed, now)
        else:
            self._answered_at = now
            self._tried(claimed)
        self._count(claimed)
        for owner in claimed.asked:
            if (slot := floor.slots.get(owner.worker_id)) is not None:
                slot.promised = max(0, slot.promised - 1)
        for claim in claimed.claims:
            self._in_play[claim.type] = now
            self._assign(claim, now)

    def _count(self, claimed: port.Claimed) -> None:
        """Count what was claimed, and the named ids that somebody else was before us at.

        Where all places were filled, the ids that are left were not tried: they are with the next.
        """
        got = {claim.task_id for claim in claimed.claims}
        left = tuple(tip for tip in self._asked_for if tip not in got)
        self._asked_for = ()
        missed = len(left)
        if left and len(got) == len(claimed.asked):
            missed = 0
            self._tips = (*left, *self._tips)
            self._wanted = None  # as many fewer may come in now
        self._floor.metrics.inc("claims_tried_total", len(got) + missed)
        self._floor.metrics.inc("claims_missed_total", missed)

    def _tried(self, claimed: port.Claimed) -> None:
        """Take in what became of the ids that the bell had named.

        It may name thousands that are gone (they were canceled, or found by a scan): with none left
        in many tries more are let in at a time.
        """
        self._hungry = self._greed > len(claimed.asked)
        self._greed = 0 if claimed.claims else min(BATCH, 4 * max(self._greed, len(claimed.asked)))

    def _scanned(self, claimed: port.Claimed, now: float) -> None:
        """Take in what a look through the whole table has told."""
        self._due_at = claimed.next_due
        asking_s = now - self._polled_at  # many queues make a poll dear: then poll less often
        self._poll_wait_s = max(self._poll_s, min(POLL_MOST_S, POLL_PAUSES * asking_s))
        self._runs_dry = self._is_due()  # it may not wait behind others: wait for an empty place
        # Or there was such a place: then a transaction of somebody else's holds its row.
        self._is_withheld = self._runs_dry and self._for_empty and not claimed.claims
        if claimed.claims:
            self._hungry = True  # there may be more where these came from
        if self._floor.listener is not None and claimed.paused != self._paused:
            self._paused = claimed.paused
            self._floor.listener.avoid(claimed.paused)

    def _assign(self, claim: Claim, now: float) -> None:
        floor = self._floor
        self._seq += 1
        slot = floor.slots.get(claim.worker_id)
        attempt = Attempt(self._seq, claim, floor.limits_of(claim), claim.worker_id, now)
        waited = (claim.claimed_at - claim.run_after).total_seconds()
        if claim.queue not in floor.queues:
            floor.know_queues((claim.queue,))
        floor.metrics.of_task(claim.queue, claim.type).wait.observe(max(0.0, waited))
        if slot is None:
            slot = Slot(claim.worker_id, 0, "gone", now)
            floor.end(slot, attempt, ended.never_started("its worker was gone"))
            return
        slot.attempts[attempt.seq] = attempt
        slot.assigned += 1
        if floor.fenced:
            floor.end(slot, attempt, ended.never_started(f"the node is fenced: {floor.fenced}"))
        elif not slot.can_take_work or not floor.pool.assign(slot.worker_id, _packet(attempt)):
            floor.end(slot, attempt, ended.never_started("its worker could not take it"))

    def take_back_waiting(self, now: float) -> None:
        """Withdraw what waits too long behind another attempt, is canceled, or is not read."""
        if now - self._checked_at < CHECK_EVERY_S:
            return
        self._checked_at = now
        for slot in self._floor.slots.values():
            waiting = [a for a in slot.attempts.values() if a.started_at is None]
            if not waiting or slot.farewell is not None:
                continue
            waited_s = now - waiting[0].sent_at
            if any(attempt.mark is not None for attempt in waiting):
                self._closing.give_back_unread(slot, "asked to stop before its first line")
            elif self._stuck_s(slot, now) and waited_s > LOOK_AHEAD_S:
                self._closing.give_back_unread(slot, "waited too long behind another attempt")
            elif len(waiting) > 1 and waited_s > LONGEST_WAIT_S:
                self._closing.give_back_unread(slot, "waited too long behind others")
            elif slot.current is None and now - max(waiting[0].sent_at, slot.read_at) > UNREAD_S:
                self._closing.give_back_unread(slot, "its worker did not read it")
                stuck = waited_s > self._floor.rules_of(waiting[0]).heartbeat_s  # read, not begun
                if not slot.attempts or stuck:  # an idle worker that does not read is no worker
                    self._closing.hasten(slot, now, kill=True)

    @property
    def claiming(self) -> bool:
        """Whether a claim is being written: its answer wakes the loop, endings wait for it."""
        return self._outstanding

    def holds_look_ahead(self) -> bool:
        """Whether any worker has more than the one attempt it runs."""
        return any(len(slot.attempts) > 1 for slot in self._floor.slots.values())


def _packet(attempt: Attempt) -> Assign:
    claim = attempt.claim
    return Assign(
        seq=attempt.seq,
        task_id=claim.task_id,
        attempt=claim.attempt,
        type=claim.type,
        params_json=claim.params_json,
        timeout=attempt.limits.timeout,
        checkpoint_json=claim.checkpoint_json,
        submitted_by=claim.submitted_by,
        dedup_key=claim.dedup_key,
        traceparent=attempt.traceparent,
    )
