"""The messages between node, zygote and worker, and how they are framed.

Secret kept here: encoding (msgpack) and framing. Control messages travel as length-framed records
on a stream socketpair; assignments one per packet on a SEQPACKET pair whose read end the node keeps
too, so that it can take back what the worker has not read. Only text and numbers cross: no object
of a task is ever unpickled on the other side.
"""

from __future__ import annotations

import array
import socket
import struct
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import msgspec

from supervisor.errors import WireBroken

FRAME_MAX_BYTES = 8 * 1024 * 1024
PACKET_MAX_BYTES = 400 * 1024
READ_BYTES = 256 * 1024
_LENGTH = struct.Struct("<I")

M = TypeVar("M")


class Message(msgspec.Struct, array_like=True, tag=True, tag_field="_", frozen=True):
    """A record on the wire; the first element is its class name."""


class Assign(Message, frozen=True):
    """Run this. `seq` is the node's own number of the attempt and names it in all messages.

    `traceparent` is its own span if the node writes one, else where the task was submitted.
    """

    seq: int
    task_id: str
    attempt: int
    type: str
    params_json: str
    timeout: float
    checkpoint_json: str | None = None
    submitted_by: str | None = None
    dedup_key: str | None = None
    traceparent: str | None = None


class Stop(Message, frozen=True):
    """Leave after what is already in the queue: the last packet a worker reads."""


class Interrupt(Message, frozen=True):
    """Ask the attempt `seq` to end; `kind` is cancel, soft_timeout or shutdown."""

    seq: int
    kind: str
    text: str


class ChildSubmitted(Message, frozen=True):
    """The answer to SubmitChild: an id, or the refusal in words."""

    request: int
    task_id: str = ""
    created: bool = False
    refused: str = ""


class Spent(msgspec.Struct, array_like=True, frozen=True):
    """What a worker and the children it waited for have used since its birth.

    The bytes received and sent are those of TCP connections, as far as they were seen open.
    """

    user_s: float = 0.0
    system_s: float = 0.0
    read_bytes: int = 0
    written_bytes: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0


class Ready(Message, frozen=True):
    """The worker may be assigned to."""

    pid: int
    start_ticks: int
    spent: Spent = Spent()


class Checkpoint(Message, frozen=True):
    """The attempt saved a checkpoint (JSON text)."""

    seq: int
    value_json: str


class SubmitChild(Message, frozen=True):
    """The attempt submits a task of its own (raw spec as JSON)."""

    seq: int
    request: int
    spec_json: str


class LeftBehind(msgspec.Struct, array_like=True, frozen=True):
    """What there is more of after an attempt, or had to be cleared: growth, not guilt.

    `children` were ended and `files` (entries of its scratch space) removed; `fds`, `threads` and
    `segments` stay, and may stem from any of the last `attempts` attempts of this worker. `names`
    begin with the children, and are printable.
    """

    fds: int = 0
    threads: int = 0
    segments: int = 0
    children: int = 0
    files: int = 0
    attempts: int = 1
    names: tuple[str, ...] = ()


class Timing(msgspec.Struct, array_like=True, frozen=True):
    """Durations: how many in each bucket (the last: above all edges), their sum, and failures."""

    buckets: tuple[int, ...] = ()
    sum_s: float = 0.0
    errors: int = 0


class InFlight(msgspec.Struct, array_like=True, frozen=True):
    """Calls of one service that are not back: how many, and since when the oldest."""

    number: int
    since_ns: int


class Tally(msgspec.Struct, array_like=True, frozen=True):
    """What an attempt has said of its work, from its beginning on; each by name."""

    counts: dict[str, float] = {}
    codes: dict[str, float] = {}
    steps: dict[str, Timing] = {}
    calls: dict[str, Timing] = {}
    in_flight: dict[str, InFlight] = {}


class Tallied(Message, frozen=True):
    """What an attempt that goes on has said and used so far: once a second at most."""

    seq: int
    spent: Spent
    tally: Tally | None = None


class Finished(Message, frozen=True):
    """The body is over. `how` is returned, raised, interrupted, result_invalid or
    result_too_large; times are CLOCK_MONOTONIC nanoseconds."""

    seq: int
    how: str
    started_ns: int
    finished_ns: int
    output_start: int
    output_end: int
    result_json: str | None = None
    error_type: str | None = None
    error: str | None = None
    traceback: str | None = None
    retryable: bool = True
    interrupted_by: str | None = None
    cpu_s: float = 0.0
    max_rss_bytes: int = 0
    left: LeftBehind | None = None
    children: tuple[str, ...] = ()
    spent: Spent | None = None
    tally: Tally | None = None


class Leaving(Message, frozen=True):
    """The worker will exit by itself: recycled, interrupted or stopped."""

    why: str


class WorkerConfig(msgspec.Struct, array_like=True, frozen=True):
    """What a worker must know about the node's settings."""

    worker_id: str
    node_id: str
    supervisor_pid: int
    beat_period_s: float
    temp_dir: str
    recycle_after_tasks: int
    recycle_growth_bytes: int
    recycle_growth_fds: int
    recycle_growth_threads: int


class Birth(Message, frozen=True):
    """Fork a worker; the descriptors of its `Plumbing` come with it."""

    config: WorkerConfig


class TypeInfo(msgspec.Struct, frozen=True):
    """What the node must know of a task type of the user's app: the options it was given.

    `secret_params` are names of params whose values no evidence may show; `words` the names that
    its metrics shall have from the beginning, by kind (counts, codes, steps, calls).
    """

    name: str
    options: dict[str, str | float | int] = {}
    secret_params: tuple[str, ...] = ()
    words: dict[str, tuple[str, ...]] = {}


class Booted(Message, frozen=True):
    """The app is imported. `obstacles` are why forking from here would not be safe."""

    types: tuple[TypeInfo, ...]
    obstacles: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class Described(Message, frozen=True):
    """The settings that the program's own App(...) names, as a JSON object."""

    overrides_json: str


class BootRefused(Message, frozen=True):
    """The app could not be imported."""

    error: str
    remedy: str
    traceback: str


class Born(Message, frozen=True):
    """A worker was forked and will become the node's child."""

    worker_id: str
    pid: int


class Stillborn(Message, frozen=True):
    """A worker could not be forked."""

    worker_id: str
    error: str


FromNode = Interrupt | ChildSubmitted
FromWorker = Ready | Checkpoint | SubmitChild | Tallied | Finished | Leaving
Assignment = Assign | Stop
FromZygote = Booted | Described | BootRefused | Born | Stillborn

_encoder = msgspec.msgpack.Encoder()
encode = _encoder.encode


class Decoder(Generic[M]):
    """Turns bytes back into one of the given messages.

    Raises: WireBroken when the bytes are something else.
    """

    def __init__(self, kind: Any) -> None:
        self._decoder = msgspec.msgpack.Decoder(kind)

    def decode(self, data: bytes | memoryview) -> M:
        """Decode one message."""
        try:
            message: M = self._decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            raise WireBroken(f"unreadable message of {len(data)} bytes: {exc}") from exc
        return message


def frame(message: Message) -> bytes:
    """Return the message as it goes on a stream: 4 bytes little-endian length, then msgpack."""
    body = encode(message)
    return _LENGTH.pack(len(body)) + body


class Stream(Generic[M]):
    """Cuts the bytes of a stream socket back into messages; keeps what is incomplete."""

    def __init__(self, kind: Any) -> None:
        self._decoder: Decoder[M] = Decoder(kind)
        self._buffer = bytearray()

    def feed(self, data: bytes | memoryview) -> Iterator[M]:
        """Take bytes as they came and yield every message that is now complete."""
        self._buffer += data
        start = 0
        try:
            while len(self._buffer) - start >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(self._buffer, start)
                if length > FRAME_MAX_BYTES:
                    raise WireBroken(
                        f"a message claims {length} bytes, the most is {FRAME_MAX_BYTES}"
                    )
                end = start + _LENGTH.size + length
                if len(self._buffer) < end:
                    break
                body = bytes(self._buffer[start + _LENGTH.size : end])
                start = end
                yield self._decoder.decode(body)
        finally:
            del self._buffer[:start]  # also when the listener raised midway: no message twice


def send_with_fds(sock: socket.socket, message: Message, fds: tuple[int, ...]) -> None:
    """Send one packet with open descriptors attached."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sock.sendmsg([encode(message)], rights)


#: Shared, since a decoder keeps nothing between messages, and made before any worker is forked.
assignments: Decoder[Assignment] = Decoder(Assignment)
