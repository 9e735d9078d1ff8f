"""The doorbell of a PostgreSQL that stands alone: its notifications.

Secret kept here: a channel for each store, and a connection of its own at each end. LISTEN needs a
session: behind a pooler that lends one for a transaction nothing is heard, which `away` says, as it
does of a line on which our own ring does not come back.
"""

from __future__ import annotations

import secrets
import select
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from supervisor.clock import Clock, SystemClock
from supervisor.errors import QueueUnavailable
from supervisor.model.record import Due
from supervisor.queue.bell import Heard, Kind
from supervisor.queue.inbox import SILENT, Inbox, InboxListener, Nudge
from supervisor.queue.ringer import Ringer
from supervisor.settings.address import without_password

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

#: How long an answer may take.
ANSWER_S = 1.0
#: Our own ring is sent this often (each is a commit on the server), and must be back in time.
BEAT_S, BEAT_BACK_S = 2.0, 1.0
#: An own ring that is overdue is noticed this soon.
LOOK_S = 0.5
#: The pause before a server that failed is asked again doubles from the first to the most.
RETRY_FIRST_S, RETRY_MOST_S = 0.05, 0.5
#: Behind a pooler nothing changes soon.
POOLED_S = 30.0
GOOD_S = 1.0
STOP_S = 1.2

#: A peer that is gone is noticed within seconds, not after the kernel's minutes and hours.
_LIVELY: Mapping[str, Any] = MappingProxyType(
    {
        "connect_timeout": 2,  # seconds; libpq takes no less
        "keepalives_idle": 2,
        "keepalives_interval": 1,
        "keepalives_count": 2,
        "tcp_user_timeout": 2000,  # milliseconds
    }
)
POOLED = (
    "behind a pooler that lends sessions for a transaction no notification is heard "
    "(let the setting queue name a Redis, or the store bypass the pooler)"
)


class Session:
    """A connection that never waits longer for an answer than ANSWER_S: psycopg has no such limit.

    A peer that acknowledges what is sent and answers nothing is no dead peer to the kernel.
    """

    def __init__(self, store_url: str, clock: Clock) -> None:
        """Connect. Raises what psycopg raises."""
        import psycopg

        _, _, rest = store_url.partition("://")
        self._connection = psycopg.connect(
            f"postgresql://{rest}",
            autocommit=True,
            fallback_application_name="supervisor bell",  # the address may name another
            **_LIVELY,
        )
        self._line = self._connection.pgconn
        self._clock = clock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        """Return the descriptor of the connection."""
        return self._line.socket

    @property
    def is_lent(self) -> bool:
        """Say whether a pooler is between: the session is not the one that we logged in to."""
        return self.run("SELECT pg_backend_pid()") != str(self._line.backend_pid)

    def run(self, statement: str, *params: str) -> str:
        """Run a statement, return its first value. Raises: QueueUnavailable, or psycopg's."""
        from psycopg.pq import ExecStatus

        self._line.send_query_params(statement.encode(), [one.encode() for one in params])
        deadline = self._clock.mono() + ANSWER_S
        value = ""
        while (result := self._result(deadline)) is not None:
            if result.status not in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
                raise QueueUnavailable(result.get_error_message())
            if result.ntuples:
                value = (result.get_value(0, 0) or b"").decode()
        return value

    def listen(self, channel: str) -> None:
        """Have the notifications of a channel sent to us."""
        from psycopg.pq import Escaping

        self.run(f"LISTEN {Escaping(self._line).escape_identifier(channel.encode()).decode()}")

    def notify(self, channel: str, payload: str) -> None:
        """Notify all who listen; the commit does not wait for the disk: nothing is kept."""
        # Only for this transaction: behind a pooler the session is somebody else's a moment later.
        hasty = "set_config('synchronous_commit', 'off', true)"
        self.run(f"SELECT pg_notify($1, $2) FROM {hasty}", channel, payload)  # noqa: S608

    def notifications(self) -> Iterator[tuple[str, str]]:
        """Yield (channel, payload) of what has come in; never waits."""
        self._line.consume_input()
        while (told := self._line.notifies()) is not None:
            yield told.relname.decode(), told.extra.decode()

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def _result(self, deadline: float) -> PGresult | None:
        """Return the next result of a statement, None after the last."""
        while self._line.flush():
            self._wait(select.POLLIN | select.POLLOUT, deadline)
            self._line.consume_input()
        while self._line.is_busy():
            self._wait(select.POLLIN, deadline)
            self._line.consume_input()
        return self._line.get_result()

    def _wait(self, events: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(self._line.socket, events)
        if not poll.poll(max(0.0, deadline - self._clock.mono()) * 1000):
            raise QueueUnavailable(f"no answer within {ANSWER_S:g} s")


def channel_of(identity: str) -> str:
    """Return the channel of a store."""
    return f"supervisor_{identity}"


class NotifyLine:
    """Rings by a notification each; ids are not carried."""

    def __init__(self, store_url: str, identity: str) -> None:
        self._channel = channel_of(identity)
        self._session = Session(store_url, SystemClock())

    def send(self, kinds: frozenset[Kind], dues: Sequence[Due]) -> None:
        """Ring for these kinds, and that something is due where there are ids."""
        for kind in sorted(kinds | {"due"} if dues else kinds):
            self._session.notify(self._channel, kind)

    def close(self) -> None:
        """Hang up."""
        self._session.close()


def notify_bell(store_url: str, identity: str) -> Ringer:
    """Make the ringing end."""
    import psycopg  # noqa: F401 - here, where it is waited for: the last rings have half a second

    return Ringer(lambda: NotifyLine(store_url, identity))


class NotifyListener(InboxListener):
    """A thread that listens, and sees whether its own ring comes back."""

    carries_ids = False

    def __init__(self, store_url: str, identity: str, clock: Clock | None = None) -> None:
        self._url, self._channel = store_url, channel_of(identity)
        self._own = f"{self._channel}_{secrets.token_hex(8)}"
        self._clock = clock or SystemClock()
        self.inbox = Inbox(self._clock, ("line",))
        self._closing = threading.Event()
        self._nudge = Nudge()
        self._thread = threading.Thread(target=self._keep, name="bell", daemon=True)
        self._thread.start()

    def heard(self) -> Heard:
        """Take all that has come in; never waits."""
        return self.inbox.take()

    def want(self, places: int) -> None:
        """Nothing to do: no ids come in."""

    def serve(self, queues: tuple[str, ...] | None, types: frozenset[str]) -> None:
        """Nothing to do: the table is asked for what the node may run."""

    def avoid(self, paused: frozenset[tuple[str, int]]) -> None:
        """Nothing to do: the table knows what is paused."""

    def close(self) -> None:
        """Stop listening; a thread that hangs in a call is left to itself."""
        self._closing.set()
        self._nudge.give()
        self._thread.join(STOP_S)
        self.inbox.close()
        if not self._thread.is_alive():
            self._nudge.close()

    # --- the thread ---------------------------------------------------------------------------

    def _keep(self) -> None:
        """Hold one session after the other until the end, with a pause after each that failed."""
        failures = 0
        while not self._closing.is_set():
            began = self._clock.mono()
            try:
                why, pause_s = self._session(), POOLED_S
            except Exception as exc:
                failures = 0 if self._clock.mono() - began > GOOD_S else min(failures + 1, 10)
                pause_s = min(RETRY_MOST_S, RETRY_FIRST_S * 2**failures)
                why = " ".join(str(exc).split()) or repr(exc)
            if not self._closing.is_set():
                self.inbox.lost("line", f"{without_password(self._url)}: {without_password(why)}")
                self._closing.wait(pause_s)

    def _session(self) -> str:
        """Listen until the end; return why it makes no sense. Raises as a Session does."""
        with Session(self._url, self._clock) as session:
            if session.is_lent:
                return POOLED
            for channel in (self._channel, self._own):
                session.listen(channel)
            beat_at = self._clock.mono()
            while not self._closing.is_set():
                if (now := self._clock.mono()) >= beat_at:
                    self.inbox.expect_proof(BEAT_BACK_S)
                    session.notify(self._own, "beat")
                    beat_at = now + BEAT_S
                for channel, kind in session.notifications():
                    self._hear(channel, kind)
                if self.inbox.overdue:
                    raise QueueUnavailable(SILENT)
                wait_s = min(LOOK_S, beat_at - self._clock.mono())
                self._nudge.wait(session.fileno(), wait_s)
        return ""

    def _hear(self, channel: str, kind: str) -> None:
        if channel == self._own:
            self.inbox.proved()
        else:
            self.inbox.put(kind)
