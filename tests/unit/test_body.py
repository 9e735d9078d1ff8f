"""Whatever a body returns or raises, its end is text of bounded size and says what happened."""

from __future__ import annotations

import asyncio
import functools
import json
import math
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor import App
from supervisor.errors import Interruption, ShutdownRequested, SoftTimeout, TaskCanceled
from supervisor.model.outcome import ERROR_TEXT_MAX, TRACEBACK_MAX
from supervisor.worker import vitals
from supervisor.worker.body import ERROR_TYPE_MAX, RESULT_MAX_BYTES, BodyEnd, run_body
from supervisor.worker.wire import Assign


def assert_left(end: BodyEnd) -> None:
    """The body left because it was told to, and it is known at which line of its own."""
    assert (end.how, end.result_json, end.error_type) == ("interrupted", None, None)
    assert (end.error or "").startswith(f"{__file__}:")
    assert "Traceback (most recent call last):" in (end.traceback or "")


class Guard:
    """The worker's side of an attempt, by hand: `asked` is what the node would have sent."""

    def __init__(self) -> None:
        fd = vitals.create()
        self.vitals = vitals.Vitals(fd)
        os.close(fd)
        self.temp_dir = Path("/nowhere")
        self.asked: Interruption | None = None
        self.nudge: Callable[[], None] | None = None
        self.calls: list[str] = []

    def wish(self) -> Interruption | None:
        return self.asked

    def acknowledge(self) -> None:
        self.calls.append("acknowledge")

    def knows(self, type_name: str) -> bool:
        return type_name == "t"

    def save_checkpoint(self, value_json: str) -> None:
        self.calls.append(f"checkpoint {value_json}")

    def submit_child(self, spec_json: str, *, on_success: bool) -> str | None:
        self.calls.append(f"submit {spec_json} {on_success}")
        return None

    def arm(self, nudge: Callable[[], None] | None, *, by_signal: bool) -> None:
        self.nudge = nudge
        ways = ["nudge"] * (nudge is not None) + ["signal"] * by_signal
        self.calls.append(f"arm {' '.join(ways) or 'flag'}")

    def disarm(self) -> None:
        self.calls.append("disarm")


@pytest.fixture(scope="module")
def shared() -> Iterator[Guard]:
    made = Guard()
    yield made
    made.vitals.close()


@pytest.fixture
def guard(shared: Guard) -> Guard:
    shared.asked = shared.nudge = None
    shared.calls.clear()
    return shared


def run(guard: Guard, body: Callable[..., Any], params: str = "{}", **options: Any) -> BodyEnd:
    """Run a body as the task `t` of an app of its own."""
    app = App(store="sqlite:////nowhere/a.db")
    app.task(name="t", **options)(body)
    guard.vitals.begin(1, 1, 0)
    return run_body(app, Assign(1, "task_1", 2, "t", params, 60.0), guard)


def failing(guard: Guard, exc: BaseException, **options: Any) -> BodyEnd:
    def body(ctx: Any) -> NoReturn:
        raise exc

    end = run(guard, body, **options)
    assert end.how == "raised"
    assert end.result_json is None
    end_is_plain(end)
    return end


def end_is_plain(end: BodyEnd) -> None:
    """Everything that leaves the process is short, and text that any store can keep."""
    bounds = (
        (end.error_type, ERROR_TYPE_MAX),
        (end.error, ERROR_TEXT_MAX),
        (end.traceback, TRACEBACK_MAX),
    )
    for text, most in bounds:
        if text is not None:
            assert len(text) <= most
            assert text.encode().decode() == text
            assert "\0" not in text


class TestParams:
    @pytest.mark.parametrize(
        ("params", "why"),
        [
            ("{}", "missing `to`"),
            ('{"to":1,"cc":2,"x\\u0000":3}', "unknown `cc`, `x\\x00` (it takes `to`, `urgent`)"),
            ('{"t":1}', "missing `to`; unknown `t` (it takes `to`, `urgent`)"),
        ],
    )
    @pytest.mark.parametrize("is_async", [False, True])
    def test_what_does_not_fit_ends_it_for_good(
        self, guard: Guard, params: str, why: str, is_async: bool
    ) -> None:
        def plain(ctx: Any, to: str, urgent: bool = False) -> None:
            raise AssertionError

        async def later(ctx: Any, to: str, urgent: bool = False) -> None:
            raise AssertionError

        end = run(guard, later if is_async else plain, params)
        assert end == BodyEnd(
            how="raised",
            error_type="InvalidSpec",
            error=f"params do not fit the task: {why}",
            retryable=False,
        )
        assert guard.calls[-1] == "disarm"

    def test_the_context_is_no_param(self, guard: Guard) -> None:
        def body(ctx: Any, **rest: Any) -> None: ...

        end = run(guard, body, '{"ctx":1}')
        why = "params do not fit the task: multiple values for argument 'ctx'"
        assert (end.error, end.retryable) == (why, False)

    def test_a_type_error_of_the_body_is_its_own(self, guard: Guard) -> None:
        def body(ctx: Any, **rest: Any) -> None:
            body()  # type: ignore[call-arg]

        end = run(guard, body)
        assert (end.error_type, end.retryable) == ("TypeError", True)
        assert "missing 1 required positional argument: 'ctx'" in (end.error or "")

    def test_what_a_wrapper_adds_is_not_missing(self, guard: Guard) -> None:
        def body(ctx: Any, to: str) -> str:
            return to + 1  # type: ignore[operator]

        @functools.wraps(body)
        def wrapper(ctx: Any, **given: Any) -> str:
            return body(ctx, to="ada", **given)

        assert run(guard, wrapper).error_type == "TypeError"
        assert run(guard, wrapper).retryable


class TestValues:
    @pytest.mark.parametrize(
        ("value", "result"),
        [
            (None, "null"),
            (True, "true"),
            (0, "0"),
            (1.5, "1.5"),
            ("漢🦊", '"漢🦊"'),
            ([], "[]"),
            ((1, (2,)), "[1,[2]]"),
            ({"rows": 3, "ok": None}, '{"rows":3,"ok":null}'),
        ],
    )
    @pytest.mark.parametrize("is_async", [False, True])
    def test_json_is_returned(self, guard: Guard, value: Any, result: str, is_async: bool) -> None:
        async def later(ctx: Any) -> Any:
            await asyncio.sleep(0)
            return value

        end = run(guard, later if is_async else lambda ctx: value)
        assert end == BodyEnd(how="returned", result_json=result, retryable=True)
        assert guard.calls == ["arm nudge" if is_async else "arm signal", "disarm"]

    def test_the_params_and_the_context_reach_the_body(self, guard: Guard) -> None:
        def body(ctx: Any, user: str, rows: list[int], flag: bool = True) -> Any:
            return [ctx.task_id, ctx.attempt, ctx.type, ctx.timeout, user, rows, flag]

        end = run(guard, body, '{"user":"漢","rows":[1,2]}')
        assert json.loads(end.result_json or "") == ["task_1", 2, "t", 60.0, "漢", [1, 2], True]

    def test_an_unknown_type_is_said(self, guard: Guard) -> None:
        app = App(store="sqlite:////nowhere/a.db")
        end = run_body(app, Assign(1, "task_1", 1, "gone", "{}", 60.0), guard)
        assert end == BodyEnd(how="raised", error_type="UnknownTaskType", error="gone")
        assert end.retryable  # another node may have the newer code

    @settings(deadline=None, max_examples=30)
    @given(
        value=st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
            max_leaves=6,
        )
    )
    def test_any_value_is_json_or_refused(self, shared: Guard, value: Any) -> None:
        end = run(shared, lambda ctx: value)
        if end.how == "returned":
            assert json.loads(end.result_json or "") == value
        else:
            assert end.how == "result_invalid"
            assert (end.error or "").startswith("result")
        end_is_plain(end)


class TestBadResults:
    @pytest.mark.parametrize(
        ("value", "why"),
        [
            (math.nan, "result: is not a JSON number (given: nan)"),
            ({"a": [1, {2}]}, "result.a[1]: is not JSON: a builtins.set (pass an id or plain"),
            ({1: 2}, "result[1]: has a key that is not text"),
            ("a\0", "result: must not hold a NUL character"),
            (["\ud800"], "result[0]: must not hold a lone surrogate"),
            (object(), "result: is not JSON: a builtins.object"),
            pytest.param(10**9000, "result: is a whole number of more than 14000 bits", id="huge"),
        ],
    )
    def test_what_is_not_json_is_refused_by_its_path(
        self, guard: Guard, value: Any, why: str
    ) -> None:
        end = run(guard, lambda ctx: value)
        assert end.how == "result_invalid"
        assert (end.error or "").startswith(why)

    def test_many_faults_are_cut(self, guard: Guard) -> None:
        end = run(guard, lambda ctx: [math.nan] * 10_000)
        assert end.how == "result_invalid"
        assert len(end.error or "") <= 2000
        end_is_plain(end)

    @pytest.mark.parametrize("letter", ["x", "漢", "🦊"])
    def test_the_limit_is_in_bytes(self, guard: Guard, letter: str) -> None:
        count = (RESULT_MAX_BYTES - 2) // len(letter.encode())
        assert run(guard, lambda ctx: letter * count).how == "returned"
        end = run(guard, lambda ctx: letter * (count + 1))
        size = (count + 1) * len(letter.encode()) + 2
        assert end == BodyEnd(
            how="result_too_large",
            error=f"the result is {size} bytes of JSON, the most is {RESULT_MAX_BYTES}",
        )

    def test_a_dict_that_raises_when_read(self, guard: Guard) -> None:
        class Lazy(dict[str, int]):
            def items(self) -> Any:
                raise ConnectionError("the session is closed")

        assert run(guard, lambda ctx: Lazy(a=1)) == BodyEnd(
            how="result_invalid", error="reading the result raised ConnectionError"
        )

    def test_a_coroutine_that_nobody_awaited(self, guard: Guard) -> None:
        async def forgotten() -> None: ...

        made = forgotten()
        end = run(guard, lambda ctx: made)
        made.close()
        assert (end.how, end.error) == (
            "result_invalid",
            "result: is not JSON: a builtins.coroutine (pass an id or plain values instead)",
        )


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("cannot be shown")

    __repr__ = __str__


class Shapeless(Exception):
    @property
    def __class__(self) -> Any:
        raise OSError("no class")

    @__class__.setter
    def __class__(self, value: Any) -> None: ...


class Meta(type):
    def __getattribute__(cls, name: str) -> Any:
        if name in {"__qualname__", "__name__"}:
            raise OSError("no name")
        return super().__getattribute__(name)


class Nameless(Exception, metaclass=Meta):
    pass


class NotText(Exception):
    def __str__(self) -> Any:
        return 5  # noqa: PLE0307 — wrong on purpose


class Fatal(BaseException):
    pass


class TestExceptions:
    def test_type_message_and_traceback(self, guard: Guard) -> None:
        end = failing(guard, ValueError("no such user: 7"))
        assert (end.error_type, end.error) == ("ValueError", "no such user: 7")
        assert end.retryable
        lines = (end.traceback or "").splitlines()
        assert lines[0] == "Traceback (most recent call last):"
        assert lines[-1] == "ValueError: no such user: 7"
        assert "raise exc" in (end.traceback or "")
        assert guard.calls == ["arm signal", "disarm"]

    @pytest.mark.parametrize("kind", ["sync", "async", "chained", "group"])
    def test_a_traceback_shows_only_the_body(self, guard: Guard, kind: str) -> None:
        """Not what called it, in any of the stacks."""

        def fails() -> NoReturn:
            raise ValueError("no")

        def body(ctx: Any) -> None:
            try:
                fails()
            except ValueError as exc:
                if kind == "chained":
                    raise OSError("worse") from exc
                if kind == "group":
                    raise ExceptionGroup("all", [exc]) from exc
                raise

        async def async_body(ctx: Any) -> None:
            await asyncio.sleep(0)
            fails()

        end = run(guard, async_body if kind == "async" else body)
        lines = (end.traceback or "").splitlines()
        files = {line.strip(" |").split('"')[1] for line in lines if 'File "' in line}
        assert files == {__file__}
        assert lines[-1].strip(" |+-") in ("ValueError: no", "OSError: worse", "")

    def test_a_call_that_fails_keeps_the_frames_there_are(self, guard: Guard) -> None:
        def body(ctx: Any, needed: int) -> None: ...

        body.__wrapped__ = functools.partial(len)  # type: ignore[attr-defined] # no Python code
        end = run(guard, body)
        assert (end.error_type, end.retryable) == ("TypeError", True)
        assert "in _call" in (end.traceback or "")

    @pytest.mark.parametrize(
        ("exc", "error_type", "error"),
        [
            (Mute(), "Mute", "<its str() raised ValueError>"),
            (NotText(), "NotText", "<its str() raised TypeError>"),
            (ValueError(), "ValueError", ""),
            (ValueError("a\0b"), "ValueError", "a\\x00b"),
            (ValueError("a\ud800b"), "ValueError", "a\\ud800b"),
            (ValueError("%s {0} <b>\n\u202e"), "ValueError", "%s {0} <b>\n\u202e"),
            (KeyError("k"), "KeyError", "'k'"),
            (SystemExit(3), "SystemExit", "3"),
            (SystemExit(), "SystemExit", ""),
            (KeyboardInterrupt(), "KeyboardInterrupt", ""),
            (GeneratorExit(), "GeneratorExit", ""),
            (MemoryError(), "MemoryError", ""),
            (Fatal("bye"), "Fatal", "bye"),
            (asyncio.CancelledError("mine"), "CancelledError", "mine"),
            (type("漢字 %s\n", (Exception,), {})("x"), "漢字 %s\n", "x"),
        ],
    )
    def test_every_kind_is_a_failure_with_its_name(
        self, guard: Guard, exc: BaseException, error_type: str, error: str
    ) -> None:
        end = failing(guard, exc)
        assert (end.error_type, end.error) == (error_type, error)
        assert end.traceback

    @pytest.mark.parametrize("name", ["Nameless", "Shapeless"])
    def test_a_class_that_raises_when_asked_for_its_name(self, guard: Guard, name: str) -> None:
        kind = {"Nameless": Nameless, "Shapeless": Shapeless}[name]

        def body(ctx: Any) -> NoReturn:
            raise kind("x")

        end = run(guard, body, no_retry_for=(ValueError,))
        assert (end.how, end.error_type, end.error, end.retryable) == ("raised", name, "x", True)
        end_is_plain(end)

    @pytest.mark.parametrize("exc", [SystemExit(3), KeyboardInterrupt(), Fatal(), ValueError()])
    def test_an_async_body_fails_in_the_same_way(self, guard: Guard, exc: BaseException) -> None:
        async def body(ctx: Any) -> None:
            await asyncio.sleep(0)
            raise exc

        end = run(guard, body)
        assert (end.how, end.error_type) == ("raised", type(exc).__name__)

    def test_a_message_of_five_megabytes_is_cut(self, guard: Guard) -> None:
        end = failing(guard, ValueError("H" * 2_500_000 + "T" * 2_500_000))
        assert (end.error or "")[:100] == "H" * 100
        assert (end.error or "")[-100:] == "T" * 100
        assert "characters cut" in (end.error or "")
        assert "characters cut" in (end.traceback or "")

    def test_a_class_name_of_any_length_is_cut(self, guard: Guard) -> None:
        end = failing(guard, type("N" * 5_000_000, (Exception,), {})())
        assert (end.error_type or "")[:20] == "N" * 20

    def test_a_group_shows_what_is_in_it(self, guard: Guard) -> None:
        group = ExceptionGroup("two", [ValueError("first"), ExceptionGroup("in", [OSError("2nd")])])
        end = failing(guard, group)
        assert (end.error_type, end.error) == ("ExceptionGroup", "two (2 sub-exceptions)")
        assert "ValueError: first" in (end.traceback or "")
        assert "OSError: 2nd" in (end.traceback or "")

    def test_a_chain_shows_its_causes(self, guard: Guard) -> None:
        def body(ctx: Any) -> None:
            try:
                raise OSError("the disk")
            except OSError as exc:
                raise RuntimeError("the save") from exc

        end = run(guard, body)
        assert (end.error_type, end.error) == ("RuntimeError", "the save")
        shown = (end.traceback or "").split("The above exception was the direct cause")
        assert ["OSError: the disk" in shown[0], "RuntimeError: the save" in shown[1]] == [True] * 2

    def test_a_chain_without_end_is_cut(self, guard: Guard) -> None:
        exc = first = ValueError("0")
        for number in range(1, 1500):
            following = ValueError(str(number))
            exc.__cause__, exc = following, following
        exc.__cause__ = first
        end = failing(guard, first)
        assert end.error == "0"
        assert end.traceback

    def test_a_recursion_without_end_keeps_its_innermost_frames(self, guard: Guard) -> None:
        def deeper() -> None:
            deeper()

        def body(ctx: Any) -> None:
            deeper()

        end = run(guard, body)
        assert (end.how, end.error_type) == ("raised", "RecursionError")
        assert "deeper()" in (end.traceback or "")
        end_is_plain(end)


class TestRetryable:
    @pytest.mark.parametrize(
        ("exc", "listed", "retryable"),
        [
            (ValueError(), (ValueError,), False),
            (UnicodeError(), (ValueError,), False),
            (KeyError(), (ValueError, LookupError), False),
            (OSError(), (ValueError, LookupError), True),
            (ValueError(), (), True),
            (SystemExit(1), (ValueError,), True),
        ],
    )
    def test_what_is_listed_is_not_tried_again(
        self, guard: Guard, exc: BaseException, listed: tuple[type, ...], retryable: bool
    ) -> None:
        assert failing(guard, exc, no_retry_for=listed).retryable is retryable


class TestInterruption:
    @pytest.mark.parametrize("wish", [TaskCanceled("c"), SoftTimeout("s"), ShutdownRequested("d")])
    def test_a_body_that_leaves_at_its_check(self, guard: Guard, wish: Interruption) -> None:
        guard.asked = wish
        end = run(guard, lambda ctx: ctx.check())
        assert_left(end)
        assert guard.calls == ["arm signal", "acknowledge", "disarm", "acknowledge"]

    def test_a_body_that_sees_the_flag_and_leaves_in_its_own_way(self, guard: Guard) -> None:
        guard.asked = SoftTimeout("s")

        def body(ctx: Any) -> None:
            if ctx.canceled:
                raise TaskCanceled

        assert_left(run(guard, body, interrupt=False))
        assert guard.calls == ["arm flag", "disarm", "acknowledge"]

    def test_a_body_that_returns_though_asked_has_returned(self, guard: Guard) -> None:
        guard.asked = TaskCanceled("c")
        assert run(guard, lambda ctx: 5) == BodyEnd(how="returned", result_json="5")
        assert "acknowledge" not in guard.calls

    def test_a_body_that_fails_though_asked_has_failed(self, guard: Guard) -> None:
        guard.asked = TaskCanceled("c")
        assert failing(guard, ValueError("x")).error == "x"

    @pytest.mark.parametrize("exc", [TaskCanceled("x"), SoftTimeout("x"), ShutdownRequested("x")])
    def test_one_that_nobody_asked_for_is_a_failure(self, guard: Guard, exc: Interruption) -> None:
        assert failing(guard, exc).error_type == type(exc).__name__
        assert "acknowledge" not in guard.calls

    def test_catching_every_exception_does_not_catch_it(self, guard: Guard) -> None:
        guard.asked = TaskCanceled("c")

        def body(ctx: Any) -> int:
            try:
                ctx.check()
            except Exception:
                return 1
            return 2

        assert run(guard, body).how == "interrupted"


class TestAsync:
    def test_a_wish_cancels_the_body_wherever_it_waits(self, guard: Guard) -> None:
        async def body(ctx: Any) -> None:
            guard.asked = TaskCanceled("c")
            assert guard.nudge is not None
            presser = threading.Thread(target=guard.nudge)  # as the worker's pulse thread does
            presser.start()
            try:
                await asyncio.Event().wait()
            finally:
                presser.join()

        assert_left(run(guard, body))
        assert guard.calls == ["arm nudge", "acknowledge", "disarm", "acknowledge"]

    def test_a_body_that_cancels_itself_has_failed(self, guard: Guard) -> None:
        async def body(ctx: Any) -> None:
            current = asyncio.current_task()
            assert current is not None
            current.cancel("mine")
            await asyncio.sleep(0)

        end = run(guard, body)
        assert (end.how, end.error_type) == ("raised", "CancelledError")
        assert "acknowledge" not in guard.calls

    def test_a_body_that_cleans_up_and_returns_has_returned(self, guard: Guard) -> None:
        async def body(ctx: Any) -> str:
            guard.asked = SoftTimeout("s")
            assert guard.nudge is not None
            guard.nudge()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return "saved"
            return "never"

        assert run(guard, body) == BodyEnd(how="returned", result_json='"saved"')

    def test_tasks_of_a_group_that_leave_at_their_check(self, guard: Guard) -> None:
        guard.asked = ShutdownRequested("d")

        async def body(ctx: Any) -> None:
            async def part() -> None:
                ctx.check()

            async with asyncio.TaskGroup() as group:
                group.create_task(part())
                group.create_task(part())

        assert_left(run(guard, body))

    def test_a_group_with_a_failure_in_it_has_failed(self, guard: Guard) -> None:
        guard.asked = ShutdownRequested("d")
        group = BaseExceptionGroup("g", [ShutdownRequested("d"), ValueError("x")])
        assert failing(guard, group).error_type == "BaseExceptionGroup"

    def test_a_wish_that_comes_after_the_end_finds_nobody(self, guard: Guard) -> None:
        async def body(ctx: Any) -> int:
            return 1

        assert run(guard, body).how == "returned"
        assert guard.nudge is not None
        guard.nudge()  # the pulse thread must not die of the closed loop
        assert guard.calls == ["arm nudge", "disarm"]

    def test_without_interrupt_only_the_flag_says_it(self, guard: Guard) -> None:
        async def body(ctx: Any) -> bool:
            guard.asked = TaskCanceled("c")
            await asyncio.sleep(0)
            return bool(ctx.canceled)

        end = run(guard, body, interrupt=False)
        assert end == BodyEnd(how="returned", result_json="true")
        assert guard.calls == ["disarm"]

    def test_what_it_left_running_is_ended(self, guard: Guard) -> None:
        ended = []

        async def body(ctx: Any) -> None:
            async def forever() -> None:
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.append("ended")

            left = asyncio.create_task(forever())
            await asyncio.sleep(0)
            assert not left.done()

        assert run(guard, body).how == "returned"
        assert ended == ["ended"]
