"""The doorbell of a Redis: it carries the ids of due tasks to whoever has a free place.

Secret kept here: the keys, below `supervisor:IDENTITY:`. A sorted set for each level holds what is
due, by due time. The type is part of a level (not only queue and priority), so that a node pops no
task that it cannot run. A set names the levels; a channel carries what concerns all nodes.
"""

from __future__ import annotations

import random
import secrets
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from supervisor.clock import Clock, SystemClock
from supervisor.errors import QueueUnavailable
from supervisor.model.record import Due, Level
from supervisor.queue.bell import Heard, Kind
from supervisor.queue.choice import Choice
from supervisor.queue.inbox import SILENT, Inbox, InboxListener, Nudge
from supervisor.queue.redis_link import ANSWER_S, Command, Link
from supervisor.queue.ringer import Ringer
from supervisor.telemetry.events import emit

#: A pop waits this long, so that a pause, a new level and the end of the node take effect soon.
BLOCK_S = 0.5
#: Our own ring is sent this often, and must be back in time.
BEAT_S, BEAT_BACK_S = 0.5, 0.75
#: The key that says this node listens outlives so many seconds without a beat.
BEAT_KEY_S = 10
LEARN_EVERY_S = 10.0
#: Each pop names every level: of more than so many, those that are out of use are forgotten.
MANY_LEVELS = 100
#: The pause before a server that failed is asked again doubles from the first to the most.
RETRY_FIRST_S, RETRY_MOST_S = 0.05, 0.5
#: A session that held this long was a good one: the next pause is the first again.
GOOD_S = 1.0
STOP_S = 1.2
#: Errors of a server that takes nothing more in and still passes on what is published.
FULL = frozenset({"OOM", "MISCONF"})
#: So many ids go in one command: Redis serves nobody else meanwhile.
IDS_AT_ONCE = 1000


class Keys:
    """The names of keys and channels of one store, and how a level is written in them."""

    def __init__(self, identity: str) -> None:
        self._root = f"supervisor:{identity}:"
        self._due: dict[Level, str] = {}
        self.levels = f"{self._root}levels"
        self.control = f"{self._root}control"

    def own(self, nonce: str) -> str:
        """Return the name of a listener's own key and channel."""
        return f"{self._root}node:{nonce}"

    def due(self, level: Level) -> str:
        """Return the sorted set of a level."""
        if (name := self._due.get(level)) is None:
            name = self._due[level] = f"{self._root}due:{member(level)}"
        return name

    def level(self, name: str) -> Level:
        """Return the level of a sorted set."""
        return levels_of([name.removeprefix(f"{self._root}due:")])[0]

    def adding(self, dues: Sequence[Due]) -> Iterator[Command]:
        """Yield the commands that put ids into the sets of their levels."""
        of_level: dict[Level, list[Due]] = defaultdict(list)
        for due in dues:
            of_level[due.level].append(due)
        for level, some in of_level.items():
            for start in range(0, len(some), IDS_AT_ONCE):
                chunk = some[start : start + IDS_AT_ONCE]
                words = [word for due in chunk for word in (due.at, due.task_id)]
                yield ("ZADD", self.due(level), "NX", *words)


def member(level: Level) -> str:
    """Write a level; no name has a slash."""
    queue, priority, kind = level
    return f"{priority}/{queue}/{kind}"


def levels_of(members: Sequence[str]) -> list[Level]:
    """Read levels; what is none of ours is passed over."""
    parts = [one.split("/") for one in members]
    return [
        (part[1], int(part[0]), part[2]) for part in parts if len(part) == 3 and part[0].isdigit()
    ]


def strike_empty(link: Link, keys: Keys, members: Sequence[str]) -> None:
    """Strike levels without ids off the set; one that is rung meanwhile stays."""
    names = [keys.due(level) for level in levels_of(members)]
    _, *sizes = link.ask(("WATCH", *names), *(("ZCARD", name) for name in names))
    empty = [one for one, size in zip(members, sizes, strict=True) if not size]
    if empty:
        link.ask(("MULTI",), ("SREM", keys.levels, *empty), ("EXEC",))
    else:
        link.ask(("UNWATCH",))


class RedisLine:
    """Puts due ids where nodes pop them, and tells the nodes the rest."""

    def __init__(self, url: str, keys: Keys) -> None:
        self._keys = keys
        self._link = Link(url)

    def send(self, kinds: frozenset[Kind], dues: Sequence[Due]) -> None:
        """Ring. Where the server has no room for ids, the nodes are told to look at the table."""
        members = sorted({member(due.level) for due in dues})
        commands: list[Command] = [("PUBLISH", self._keys.control, kind) for kind in sorted(kinds)]
        if dues:
            commands += self._keys.adding(dues)
            commands.append(("SADD", self._keys.levels, *members))
        answers = self._link.try_all(*commands)
        failed = [answer for answer in answers if isinstance(answer, QueueUnavailable)]
        if any(one.facts["code"] in FULL for one in failed):
            self._link.ask(("PUBLISH", self._keys.control, "due"))  # takes no room
        elif failed:
            raise failed[0]
        elif dues and answers[-1]:
            self._link.ask(("PUBLISH", self._keys.control, f"level {' '.join(members)}"))

    def close(self) -> None:
        """Hang up."""
        self._link.close()


def redis_bell(url: str, identity: str) -> Ringer:
    """Make the ringing end."""
    import redis  # noqa: F401 - here, where it is waited for: the last rings have half a second

    keys = Keys(identity)
    return Ringer(lambda: RedisLine(url, keys))


class RedisListener(InboxListener):
    """Two threads: one pops due ids, one follows the channel and sees whether the line is good."""

    carries_ids = True

    def __init__(self, url: str, identity: str, clock: Clock | None = None) -> None:
        self._url, self._keys = url, Keys(identity)
        self._clock = clock or SystemClock()
        self._own = self._keys.own(secrets.token_hex(8))
        self._stop = f"{self._own}:stop"
        self._choice = Choice()
        self.inbox = Inbox(self._clock, ("pop", "line"))
        self._closing = threading.Event()
        self._nudge = Nudge()
        self._links: dict[str, Link] = {}
        self._policy_told = ""
        self._threads = {
            "pop": self._thread("pop", self._pop, BLOCK_S + ANSWER_S),
            "line": self._thread("line", self._follow, ANSWER_S),
        }

    def _thread(
        self, part: str, session: Callable[[Link], None], wait_s: float
    ) -> threading.Thread:
        thread = threading.Thread(
            target=self._keep, args=(part, session, wait_s), name=f"bell {part}", daemon=True
        )
        thread.start()
        return thread

    def heard(self) -> Heard:
        """Take all that has come in; never waits."""
        return self.inbox.take(lambda: tuple(due.task_id for due in self._choice.hand_over()))

    def want(self, places: int) -> None:
        """Let at most so many more ids come in; those that wait to be taken by `heard` count."""
        self._choice.want(places)

    def serve(self, queues: tuple[str, ...] | None, types: frozenset[str]) -> None:
        """Hear only of these queues (None: all) and these types of tasks."""
        if self._choice.serve(queues, types):
            self._nudge.give()

    def avoid(self, paused: frozenset[tuple[str, int]]) -> None:
        """Leave paused (queue, priority) alone, ANY_PRIORITY for all of a queue."""
        if self._choice.avoid(paused):
            self._nudge.give()

    def close(self) -> None:
        """Stop listening and give back what nobody took; a thread that hangs is cut off."""
        self._closing.set()
        self._choice.want(0)
        self._nudge.give()
        deadline = self._clock.mono() + STOP_S
        for part, thread in self._threads.items():
            thread.join(max(0.0, deadline - self._clock.mono()))
            link = self._links.get(part)
            if thread.is_alive() and link is not None:
                link.close()
        self.inbox.close()
        if not any(thread.is_alive() for thread in self._threads.values()):
            self._nudge.close()

    # --- threads ------------------------------------------------------------------------------

    def _keep(self, part: str, session: Callable[[Link], None], wait_s: float) -> None:
        """Hold one session after the other until the end, with a pause after each that failed."""
        failures = 0
        while not self._closing.is_set():
            began = self._clock.mono()
            try:
                with Link(self._url, wait_s) as link:
                    self._links[part] = link
                    session(link)
            except QueueUnavailable as exc:
                if not self._closing.is_set():
                    self.inbox.lost(part, exc.message)
            except Exception as exc:
                self.inbox.lost(part, repr(exc))
                emit("loop.failed", step=f"bell {part}", error=repr(exc), exc_info=True)
            failures = 0 if self._clock.mono() - began > GOOD_S else min(failures + 1, 10)
            self._closing.wait(min(RETRY_MOST_S, RETRY_FIRST_S * 2**failures))

    def _pop(self, link: Link) -> None:
        """Pop due ids while places are free."""
        # Asks for nothing: says at once whether the server can and lets us.
        link.ask(("BZMPOP", 0.001, 1, self._stop, "MIN", "COUNT", 1))
        self.inbox.found("pop")
        while not self._closing.is_set():
            levels, count = self._choice.next(BLOCK_S)
            if levels and count:
                self._pop_once(link, levels, count)
            else:
                link.ask(("PING",))  # a line that is never used is cut by some
        if left := self._choice.hand_over():
            link.ask(*self._keys.adding(left))

    def _pop_once(self, link: Link, levels: list[Level], count: int) -> None:
        keys = [self._stop, *map(self._keys.due, levels)]
        pop: Command = ("BZMPOP", BLOCK_S, len(keys), *keys, "MIN", "COUNT", count)
        (answer,) = link.ask(pop)
        if answer is None or answer[0] == self._stop:
            return
        level = self._keys.level(answer[0])
        popped = [Due(level, task_id, float(at)) for task_id, at in answer[1]]
        unwanted = self._choice.take(level, popped)
        if len(unwanted) < len(popped):
            self.inbox.put()
        if unwanted:
            link.ask(*self._keys.adding(unwanted))

    def _follow(self, link: Link) -> None:
        """Hear what concerns all nodes, and see whether our own ring goes round."""
        with Link(self._url) as asking:
            link.ask(("SUBSCRIBE", self._keys.control))
            link.ask(("SUBSCRIBE", self._own))
            self._warn_of_eviction(asking)
            learn_at = beat_at = self._clock.mono()
            while not self._closing.is_set():
                now = self._clock.mono()
                if now >= learn_at:
                    self._learn(asking)
                    learn_at = now + LEARN_EVERY_S
                if now >= beat_at:
                    self._beat(asking)
                    beat_at = now + BEAT_S
                for channel, said in link.messages(beat_at - now, self._nudge):
                    self._hear(channel, said)
                if self._nudge.feel():
                    self._stop_the_pop(asking)
                if self.inbox.overdue:
                    raise QueueUnavailable(SILENT)

    def _learn(self, asking: Link) -> None:
        """Learn the levels anew; where there are many, those without ids are struck off first."""
        (members,) = asking.ask(("SMEMBERS", self._keys.levels))
        if len(members) > MANY_LEVELS:
            strike_empty(asking, self._keys, random.sample(members, MANY_LEVELS))
            (members,) = asking.ask(("SMEMBERS", self._keys.levels))
        if self._choice.learn(levels_of(members), forget_others=True):
            self._nudge.give()

    def _stop_the_pop(self, asking: Link) -> None:
        """End the wait of a pop for levels that are no longer the right ones."""
        asking.ask(("ZADD", self._stop, 0, "stop"), ("EXPIRE", self._stop, BEAT_KEY_S))

    def _beat(self, asking: Link) -> None:
        """Send our own ring, and write: a full or read-only server passes rings on all the same."""
        self.inbox.expect_proof(BEAT_BACK_S)
        write: Command = ("SET", self._own, 1, "EX", BEAT_KEY_S)
        written, passed_on = asking.try_all(write, ("PUBLISH", self._own, "beat"))
        if isinstance(passed_on, QueueUnavailable):
            raise passed_on
        if not isinstance(written, QueueUnavailable):
            self.inbox.found("room")
        elif written.facts["code"] in FULL:
            self.inbox.lost("room", written.message)
        else:
            raise written

    def _hear(self, channel: str, said: str) -> None:
        kind, _, members = said.partition(" ")
        if channel == self._own:
            self.inbox.proved()
        elif kind != "level":
            self.inbox.put(kind)
        elif self._choice.learn(levels_of(members.split(" "))):
            self._nudge.give()  # the pop that waits now does not know this level

    def _warn_of_eviction(self, asking: Link) -> None:
        policy, most = asking.eviction()
        if policy.startswith("allkeys") and policy != self._policy_told:
            self._policy_told = policy
            emit("bell.endangered", policy=policy, maxmemory=most)
