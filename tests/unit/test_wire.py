"""Every message comes back as it was sent, however the stream cuts it; junk is named as such."""

from __future__ import annotations

import struct
import typing
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.errors import WireBroken
from supervisor.worker import wire
from supervisor.worker.wire import FRAME_MAX_BYTES, Decoder, Message, Stream, encode, frame

UNIONS = [wire.FromNode, wire.FromWorker, wire.Assignment, wire.FromZygote, wire.Birth]
KINDS = [kind for union in UNIONS for kind in (get_args(union) or (union,))]
LENGTH = struct.Struct("<I")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: texts,
    int: st.integers(-(2**63), 2**64 - 1),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    type(None): st.none(),
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Make values of a field's type, so that a new message or field is tried without a word."""
    if hint in PLAIN:
        return PLAIN[hint]
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        fields = typing.get_type_hints(hint)
        return st.builds(hint, **{name: values_of(fields[name]) for name in hint.__struct_fields__})
    args = get_args(hint)
    if typing.get_origin(hint) is dict:
        return st.dictionaries(values_of(args[0]), values_of(args[1]), max_size=4)
    if args[-1] is Ellipsis:
        return st.lists(values_of(args[0]), max_size=2).map(tuple)
    return st.one_of([values_of(arg) for arg in args])


def in_pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    """Cut data into pieces of these sizes, the rest being the last."""
    pieces = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [*pieces, data]


def heard(stream: Stream[Any], *pieces: bytes) -> list[Any]:
    return [message for piece in pieces for message in stream.feed(piece)]


def test_the_list_of_messages_is_whole() -> None:
    assert set(KINDS) == set(Message.__subclasses__())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_message_comes_back_as_it_was(kind: type[Message]) -> None:
    union = next(one for one in UNIONS if kind in (get_args(one) or (one,)))
    decoder: Decoder[Any] = Decoder(union)

    @settings(deadline=None, max_examples=15)
    @given(values_of(kind))
    def check(message: Message) -> None:
        assert decoder.decode(encode(message)) == message
        assert decoder.decode(memoryview(encode(message))) == message

    check()


@pytest.mark.parametrize("kind", [*KINDS, wire.TypeInfo, wire.WorkerConfig])
def test_a_message_cannot_be_changed(kind: type[msgspec.Struct]) -> None:
    assert kind.__struct_config__.frozen


def test_what_is_left_out_of_a_message() -> None:
    assert wire.ChildSubmitted(1) == wire.ChildSubmitted(1, task_id="", created=False, refused="")
    assert wire.Finished(1, "returned", 2, 3, 4, 5) == wire.Finished(
        seq=1,
        how="returned",
        started_ns=2,
        finished_ns=3,
        output_start=4,
        output_end=5,
        result_json=None,
        error_type=None,
        error=None,
        traceback=None,
        retryable=True,
        interrupted_by=None,
        cpu_s=0.0,
        max_rss_bytes=0,
        left=None,
        children=(),
    )


@settings(deadline=None, max_examples=50)
@given(
    st.lists(values_of(wire.FromWorker), max_size=6),
    st.lists(st.integers(0, 60), max_size=12),
)
def test_any_cutting_of_the_stream_gives_the_same_messages(
    messages: list[Message], sizes: list[int]
) -> None:
    data = b"".join(frame(message) for message in messages)
    assert heard(Stream(wire.FromWorker), *in_pieces(data, sizes)) == messages


def test_byte_by_byte_and_all_at_once() -> None:
    sent = [wire.Ready(7, 9), wire.Checkpoint(1, '{"page":"漢"}'), wire.Leaving("recycled")]
    data = b"".join(map(frame, sent))
    assert heard(Stream(wire.FromWorker), data) == sent
    assert heard(Stream(wire.FromWorker), *(bytes([byte]) for byte in data)) == sent


def test_a_message_is_given_as_soon_as_its_last_byte_is_there() -> None:
    stream: Stream[Any] = Stream(wire.FromWorker)
    data = frame(wire.Leaving("stopped"))
    assert heard(stream, data[:-1]) == []
    assert heard(stream, data[-1:] + data[:3]) == [wire.Leaving("stopped")]
    assert heard(stream, data[3:]) == [wire.Leaving("stopped")]


def test_a_frame_is_a_little_endian_length_and_the_message() -> None:
    body = encode(wire.Leaving("x"))
    assert frame(wire.Leaving("x")) == LENGTH.pack(len(body)) + body
    assert msgspec.msgpack.decode(body) == ["Leaving", "x"]


def test_a_large_message_in_small_reads() -> None:
    sent = wire.Finished(1, "returned", 1, 2, 3, 4, result_json='"' + "x" * 1_000_000 + '"')
    data = frame(sent)
    pieces = [data[start : start + 65536] for start in range(0, len(data), 65536)]
    assert heard(Stream(wire.FromWorker), *pieces) == [sent]


def torn(message: Message, at: int) -> bytes:
    """A real message with one byte changed: nearly right is harder than noise."""
    data = bytearray(encode(message))
    data[at % len(data)] ^= 0x41
    return bytes(data)


class TestJunk:
    @settings(deadline=None, max_examples=100)
    @given(st.binary(max_size=40) | st.builds(torn, values_of(wire.FromWorker), st.integers(0, 99)))
    def test_any_bytes_are_a_message_or_broken(self, data: bytes) -> None:
        decoder: Decoder[Any] = Decoder(wire.FromWorker)
        try:
            msgspec.msgpack.decode(data, type=wire.FromWorker)
        except (msgspec.DecodeError, UnicodeDecodeError):
            with pytest.raises(WireBroken, match=f"^unreadable message of {len(data)} bytes: "):
                decoder.decode(data)
        else:
            assert isinstance(decoder.decode(data), get_args(wire.FromWorker))

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"\xc1",
            b"\x00",
            b"\x90",
            b"\xff" * 20,
            msgspec.msgpack.encode(["Ready"]),
            msgspec.msgpack.encode(["Ready", "7", 9]),
            msgspec.msgpack.encode(["Ready", 7, 9.5]),
            msgspec.msgpack.encode(["Unheard", 1]),
            msgspec.msgpack.encode({"Ready": [7, 9]}),
            msgspec.msgpack.encode(["Ready", 7, 9]) + b"\x00",
            msgspec.msgpack.encode(["Ready", 7, 9])[:-1],
            b"\x92\xa7Leaving\xa2\xff\xfe",
            b"\x94\xa5Ready\x01\x02" + b"\x91" * 5000 + b"\x01",
            encode(wire.Assign(1, "t", 1, "t", "{}", 60.0)),
        ],
    )
    def test_what_is_no_message_of_a_worker(self, data: bytes) -> None:
        with pytest.raises(WireBroken, match=rf"^unreadable message of {len(data)} bytes: "):
            Decoder[Any](wire.FromWorker).decode(data)

    def test_a_surrogate_cannot_be_smuggled_out(self) -> None:
        with pytest.raises(UnicodeEncodeError):
            encode(wire.Leaving("\ud800"))

    @pytest.mark.parametrize("length", [FRAME_MAX_BYTES + 1, 2**32 - 1])
    def test_an_oversize_length_is_refused_before_its_body_comes(self, length: int) -> None:
        stream: Stream[Any] = Stream(wire.FromWorker)
        with pytest.raises(WireBroken) as broken:
            heard(stream, LENGTH.pack(length))
        assert broken.value.message == f"a message claims {length} bytes, the most is 8388608"

    def test_the_largest_length_is_waited_for(self) -> None:
        assert heard(Stream(wire.FromWorker), LENGTH.pack(FRAME_MAX_BYTES)) == []

    def test_what_came_before_the_junk_is_heard(self) -> None:
        stream: Stream[Any] = Stream(wire.FromWorker)
        data = frame(wire.Ready(1, 2)) + LENGTH.pack(3) + b"\xc1\xc1\xc1"
        incoming = stream.feed(data)
        assert next(incoming) == wire.Ready(1, 2)
        with pytest.raises(WireBroken):
            next(incoming)

    def test_an_empty_frame_is_broken(self) -> None:
        with pytest.raises(WireBroken, match="unreadable message of 0 bytes"):
            heard(Stream(wire.FromWorker), LENGTH.pack(0))
