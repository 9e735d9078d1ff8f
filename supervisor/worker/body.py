"""Running one task body and turning whatever comes out of it into text.

Secret kept here: sync and async bodies, which exceptions mean what, and the caps on everything that
leaves the process. Nothing a body raises or returns can break the worker: its repr may raise, its
message may be 50 MB, its result may not be JSON.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from supervisor.errors import Interruption
from supervisor.model.outcome import ERROR_TEXT_MAX, TRACEBACK_MAX, cut, printable
from supervisor.model.spec import json_problems
from supervisor.telemetry import trace
from supervisor.worker.context import Line, TaskContext
from supervisor.worker.wire import Assign

if TYPE_CHECKING:
    from supervisor.app import App, Task

RESULT_MAX_BYTES = 256 * 1024
#: A class name can be made at run time, and be of any length.
ERROR_TYPE_MAX = 200
#: Frames kept of each traceback in a chain: the outermost and innermost are what people read.
TRACEBACK_FRAMES = 60
#: Where frames that are not the task's own come from.
_OURS = str(Path(__file__).parent)
_STANDARD_LIBRARY = str(Path(traceback.__file__).parent)


class BodyEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a body ended, as text. `how` is one of the words of wire.Finished."""

    how: str
    result_json: str | None = None
    error_type: str | None = None
    error: str | None = None
    traceback: str | None = None
    retryable: bool = True


class Guard(Line, Protocol):
    """The worker's side of an interruption."""

    def arm(self, nudge: Callable[[], None] | None, *, by_signal: bool) -> None:
        """Let interrupts land from here on."""

    def disarm(self) -> None:
        """Let none land any more, and nothing of the body's own; more than once does no harm."""


def run_body(app: App, assign: Assign, guard: Guard) -> BodyEnd:
    """Run the body of this assignment to its end, whatever that is."""
    task = app.types.get(assign.type)
    if task is None:
        return BodyEnd(how="raised", error_type="UnknownTaskType", error=assign.type)
    if assign.traceparent is None:
        return _run(task, assign, guard)
    with trace.attached(assign.traceparent):
        return _run(task, assign, guard)


def _run(task: Task, assign: Assign, guard: Guard) -> BodyEnd:
    context = TaskContext(assign, guard)
    value, has_returned = None, False
    try:
        value = _call(task, context, json.loads(assign.params_json), guard)
        has_returned = True
        guard.disarm()
    except BaseException as exc:
        guard.disarm()  # here too: an alarm of the body's own may have gone off on the way there
        if not has_returned:
            return _left(task, assign, guard, exc)
    return _returned(value)


def _left(task: Task, assign: Assign, guard: Guard, exc: BaseException) -> BodyEnd:
    # A stop that nobody asked for is the body's own: CANCELED would not be true.
    if guard.wish() is None or not _is_stop(exc):
        return _misfit(task, assign, exc) or _raised(task, exc)
    guard.acknowledge()
    return BodyEnd(how="interrupted", error=_where(exc), traceback=_traceback(exc))


def _call(task: Task, context: TaskContext, params: dict[str, Any], guard: Guard) -> Any:
    if not task.is_async:
        guard.arm(None, by_signal=task.options.interrupt)
        return task.function(context, **params)
    with asyncio.Runner() as runner:
        return runner.run(_awaited(task, context, params, guard))


async def _awaited(task: Task, context: TaskContext, params: dict[str, Any], guard: Guard) -> Any:
    loop = asyncio.get_running_loop()
    current = asyncio.current_task()
    if current is not None and task.options.interrupt:
        guard.arm(lambda: _cancel_soon(loop, current, guard), by_signal=False)
    value = task.function(context, **params)
    return await value if inspect.isawaitable(value) else value


def _cancel_soon(loop: asyncio.AbstractEventLoop, body: asyncio.Task[Any], guard: Guard) -> None:
    def deliver() -> None:
        guard.acknowledge()
        body.cancel()

    with suppress(RuntimeError):  # the loop was closed meanwhile: the body is over
        loop.call_soon_threadsafe(deliver)


def _is_stop(exc: BaseException) -> bool:
    """Say whether a body left because it was told to; a TaskGroup wraps what its tasks raise."""
    if issubclass(type(exc), BaseExceptionGroup):
        return all(_is_stop(one) for one in exc.exceptions)  # type: ignore[attr-defined]
    return issubclass(type(exc), Interruption | asyncio.CancelledError)


def _returned(value: Any) -> BodyEnd:
    if value is None:
        return BodyEnd(how="returned", result_json="null")
    try:
        problems = json_problems(value, "result")
        encoded = "" if problems else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except Exception as exc:  # a dict or list of the body's own class may do anything when read
        why = f"reading the result raised {_type_name(exc)}"
        return BodyEnd(how="result_invalid", error=why)
    if problems:
        text = printable(cut("; ".join(map(str, problems)), 2000))
        return BodyEnd(how="result_invalid", error=text)
    size = len(encoded.encode())
    if size > RESULT_MAX_BYTES:
        why = f"the result is {size} bytes of JSON, the most is {RESULT_MAX_BYTES}"
        return BodyEnd(how="result_too_large", error=why)
    return BodyEnd(how="returned", result_json=encoded)


def _misfit(task: Task, assign: Assign, exc: BaseException) -> BodyEnd | None:
    """Return the end of a call that its params did not fit: the body was never entered."""
    if type(exc) is not TypeError or _entered(task, exc):
        return None
    why = task.signature.misfit(json.loads(assign.params_json))
    if not why:
        return None
    text = printable(cut(why, ERROR_TEXT_MAX))
    return BodyEnd(how="raised", error_type="InvalidSpec", error=text, retryable=False)


def _entered(task: Task, exc: BaseException) -> bool:
    body = getattr(inspect.unwrap(task.function), "__code__", None)
    return body is None or any(
        frame.f_code is body for frame, _ in traceback.walk_tb(exc.__traceback__)
    )


def _raised(task: Task, exc: BaseException) -> BodyEnd:
    no_retry: tuple[type[BaseException], ...] = tuple(task.options.no_retry_for)
    return BodyEnd(
        how="raised",
        error_type=_type_name(exc),
        error=_message(exc),
        traceback=_traceback(exc),
        retryable=not issubclass(type(exc), no_retry),  # isinstance would ask exc.__class__
    )


def in_words(exc: BaseException) -> str:
    """Return the class and the message of any exception, as text that can be sent."""
    return f"{_type_name(exc)}: {_message(exc)}"


def _type_name(exc: BaseException) -> str:
    return printable(cut(type.__getattribute__(type(exc), "__qualname__"), ERROR_TYPE_MAX))


def _message(exc: BaseException) -> str:
    try:
        return printable(cut(str(exc), ERROR_TEXT_MAX))
    except BaseException as broken:
        return f"<its str() raised {_type_name(broken)}>"


def _where(exc: BaseException) -> str:
    """Name the line of the task's own code at which it was interrupted."""
    try:
        frames = traceback.extract_tb(exc.__traceback__)
    except Exception as broken:  # a source file that cannot be read
        return f"<finding where raised {type(broken).__name__}>"
    foreign = (_OURS, _STANDARD_LIBRARY)
    own = [f for f in frames if not f.filename.startswith(foreign) or "-packages" in f.filename]
    if not own:
        return ""
    line = own[-1]
    return printable(cut(f"{line.filename}:{line.lineno} in {line.name}: {line.line}", 500))


def _traceback(exc: BaseException) -> str:
    try:
        told = traceback.TracebackException.from_exception(
            exc, limit=-TRACEBACK_FRAMES, compact=True
        )
        _show_only_the_body(told, interrupted=issubclass(type(exc), Interruption))
        return printable(cut("".join(told.format()), TRACEBACK_MAX))
    except BaseException as broken:
        return f"<formatting it raised {_type_name(broken)}>"


def _show_only_the_body(told: traceback.TracebackException, *, interrupted: bool) -> None:
    """Take what called the body, and what brought an interruption to it, out of every stack."""
    following, seen = [told], set()
    while following:
        one = following.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        frames = one.stack
        begin = max((at + 1 for at, f in enumerate(frames) if f.filename == __file__), default=0)
        end = len(frames)
        while interrupted and end > begin and frames[end - 1].filename.startswith(_OURS):
            end -= 1
        if begin < end:  # otherwise the call itself failed, and ours are all there is
            one.stack = traceback.StackSummary.from_list(frames[begin:end])
        following += [other for other in (one.__cause__, one.__context__) if other is not None]
        following += one.exceptions or []
