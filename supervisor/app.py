"""The face a program sees: an App, its task types, and what can be done with their tasks.

Secret kept here: how a function becomes a task type. Light: a worker imports this module, so the
store comes in only when somebody submits or looks (`App.client`, the single upward edge).
Invariants: one type per name; a bad declaration or submit is refused before anything is written.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from supervisor.errors import ConfigError, InvalidSpec, Problem, UnknownTaskType
from supervisor.model.label import NO_WORDS, Words, read_words
from supervisor.model.spec import (
    DEFAULT_QUEUE,
    MAX_TIMEOUT_S,
    TaskSpec,
    long_params,
    parse_spec,
    shorten,
)
from supervisor.settings import (
    NO_MEMORY_LIMIT,
    Settings,
    TaskOptions,
    check_values,
    load_settings,
    toml_from,
)
from supervisor.signature import Signature, read_signature

if TYPE_CHECKING:
    from supervisor.client import Acted, Client, Handle, HistoryLine, TaskView

__all__ = ["App", "SubmitOptions", "Task", "TaskOptions", "TypeLimits"]

Body = Callable[..., Any]
Names = Collection[str]
ReleaseHook = Callable[[], object]


class TypeLimits(TypedDict, total=False):
    """Limits that a type may set: seconds; bytes as a number or such as "256MiB".

    None means none, where there is such a thing: left out is not the same as None.
    """

    timeout: float
    soft_timeout: float | None
    max_retries: int
    retry_base: float
    retry_max: float
    max_crashes: int
    progress_timeout: float
    cancel_grace: float
    memory_limit_bytes: int | str | None
    heartbeat_interval: float
    heartbeat_misses: int
    cpu_spin_after: float


class SubmitOptions(TypedDict, total=False):
    """What `submit` takes beside the params; each is a field of the task spec."""

    by: str
    dedup_key: str
    dedup_ttl: float
    queue: str
    priority: int
    timeout: float
    soft_timeout: float | None
    max_retries: int
    run_after: datetime | str
    tags: Sequence[str]
    parent_id: str
    task_id: str
    traceparent: str
    connection: Any


NAMESAKE_WARNING = (
    "the distribution 'supervisor' (supervisord) is installed in this environment and shares the "
    "import name of 'task-supervisor': one of them overwrites files of the other. Use separate "
    "virtual environments."
)
SUBMIT_OPTIONS = frozenset(SubmitOptions.__annotations__)


class Task:
    """A task type: the function, its options, and `submit`. Calling it runs the function here."""

    def __init__(
        self,
        app: App,
        name: str,
        function: Body,
        options: TaskOptions,
        signature: Signature,
        words: Words = NO_WORDS,
    ) -> None:
        self.app = app
        self.name = name
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function)
        self.options = options
        self.signature = signature
        self.words = words
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def submit(self, *positional: object, **given: Any) -> Handle:
        """Submit a task of this type: params and options (`SubmitOptions`), all by name.

        Raises: InvalidSpec naming every bad field; StoreUnavailable.
        """
        connection = given.pop("connection", None)
        return self.app.submit(self.spec(*positional, **given), connection=connection)

    def spec(self, *positional: object, **given: Any) -> dict[str, Any]:
        """Return the task spec that `submit` would write, without writing it.

        Raises: InvalidSpec for params given by position.
        """
        if positional:
            names = ", ".join(self.signature.names) or "none"
            raise InvalidSpec(
                [Problem("params", f"are given by name ({names})", shorten(positional))]
            )
        options = {name: given.pop(name) for name in SUBMIT_OPTIONS & given.keys()}
        if "by" in options:
            options["submitted_by"] = options.pop("by")
        return {"type": self.name, "params": given, **options}


class App:
    """A registry of task types, and the verbs on their tasks.

    Settings given here stand above the defaults only: flags, environment and TOML file win.
    """

    def __init__(
        self, store: str | None = None, queue: str | None = None, **settings: object
    ) -> None:
        _warn_of_namesake()
        places = {"store": store, "queue": queue}
        self.overrides: Mapping[str, object] = MappingProxyType(
            {**{name: value for name, value in places.items() if value is not None}, **settings}
        )
        check_values(self.overrides, "App(...)")
        self._types: dict[str, Task] = {}
        self._release_hooks: list[ReleaseHook] = []
        self._settings: Settings | None = None
        # By process, and made without a lock: a fork may leave a lock held for ever.
        self._clients: dict[int, Client] = {}

    @property
    def types(self) -> Mapping[str, Task]:
        """The registered types by name."""
        return MappingProxyType(self._types)

    @property
    def release_hooks(self) -> tuple[ReleaseHook, ...]:
        """The functions a worker runs before it exits, in the order of registration."""
        return tuple(self._release_hooks)

    @property
    def settings(self) -> Settings:
        """The settings of this process, read once from environment, TOML file and overrides."""
        if self._settings is None:
            self._settings = load_settings({}, os.environ, toml_from(os.environ), self.overrides)
        return self._settings

    @property
    def client(self) -> Client:
        """The way to the store; opened on first use, and again in a forked child."""
        pid = os.getpid()
        if (known := self._clients.get(pid)) is not None:
            return known
        from supervisor.client import Client  # brings in the store, which a worker never needs

        return self._clients.setdefault(pid, Client(self.settings))  # one for all threads

    @overload
    def task(self, body: Body, /) -> Task: ...

    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        queue: str | None = None,
        no_retry_for: tuple[type[BaseException], ...] = (),
        interrupt: bool = True,
        secret_params: tuple[str, ...] = (),
        expected_duration: float | None = None,
        counts: Names = (),
        error_codes: Collection[str | int] = (),
        steps: Names = (),
        calls: Names = (),
        **limits: Unpack[TypeLimits],
    ) -> Callable[[Body], Task]: ...

    def task(
        self,
        body: Body | None = None,
        /,
        *,
        name: str | None = None,
        queue: str | None = None,
        no_retry_for: tuple[type[BaseException], ...] = (),
        interrupt: bool = True,
        secret_params: tuple[str, ...] = (),
        expected_duration: float | None = None,
        counts: Names = (),
        error_codes: Collection[str | int] = (),
        steps: Names = (),
        calls: Names = (),
        **limits: Unpack[TypeLimits],
    ) -> Any:
        """Make a function `body(ctx, …)`, plain or async, a task type.

        `interrupt` False: cancel and soft timeout only set a flag. `no_retry_for`: exceptions
        that end the task at once. `secret_params`: whose values no evidence shows. `counts`,
        `error_codes`, `steps`, `calls`: names that its metrics have from the beginning.
        Units: `expected_duration` in seconds.
        Raises: ConfigError for a bad or second declaration.
        """

        def register(function: Body) -> Task:
            options = _options(function, queue, no_retry_for, interrupt, dict(limits))
            options = replace(
                options,
                secret_params=_secret_params(function, secret_params),
                expected_duration=_expected(function, expected_duration),
            )
            told = {"counts": counts, "error_codes": error_codes, "steps": steps, "calls": calls}
            return self._register(name, function, options, read_words(_where(function), told))

        return register if body is None else register(body)

    def _register(self, name: str | None, body: Body, options: TaskOptions, words: Words) -> Task:
        chosen = name if name is not None else getattr(body, "__name__", "")
        _require_name(chosen, options.queue)
        if chosen in self._types:
            first = self._types[chosen].function
            raise ConfigError(
                f"task {chosen} is registered twice: in {first.__module__} and {body.__module__}",
                remedy="Rename one of the functions or give it `name=`.",
                task=chosen,
            )
        task = Task(self, chosen, body, options, read_signature(body, SUBMIT_OPTIONS), words)
        self._types[chosen] = task
        return task

    def on_release(self, hook: ReleaseHook) -> ReleaseHook:
        """Run this function in each worker before it exits (close pools, flush buffers)."""
        if not callable(hook):
            raise ConfigError("on_release takes a function", remedy="Decorate a function.")
        self._release_hooks.append(hook)
        return hook

    def checked(self, spec: Mapping[str, Any]) -> TaskSpec:
        """Check a spec against its type and return it; if it names no queue, with the type's own.

        An app without types (a program that only submits) knows none and refuses none.
        Raises: InvalidSpec, UnknownTaskType.
        """
        name = spec.get("type") if isinstance(spec, Mapping) else None
        task = self._types.get(name) if isinstance(name, str) else None
        if task is not None and spec.get("queue") is None:
            spec = {**spec, "queue": task.options.queue or DEFAULT_QUEUE}
        parsed = parse_spec(spec)
        if task is not None:
            problems = task.signature.problems(spec.get("params", {}))
            if problems:
                raise InvalidSpec(problems)
        elif self._types:
            raise _unknown_type(parsed.type, self._types)
        return parsed

    def submit(self, spec: Mapping[str, Any], connection: Any = None) -> Handle:
        """Write one task; a `dedup_key` that is held returns the existing one.

        With `connection` (SQLAlchemy) it joins the caller's transaction.
        Raises: InvalidSpec, UnknownTaskType, StoreUnavailable.
        """
        return self.submit_many([spec], connection)[0]

    def submit_many(
        self, specs: Iterable[Mapping[str, Any]], connection: Any = None
    ) -> list[Handle]:
        """Write all tasks in one transaction, or none if one of them is refused."""
        checked = [self.checked(spec) for spec in specs]
        for long in filter(None, map(long_params, checked)):
            warnings.warn(long, stacklevel=3)
        return self.client.submit(checked, connection)

    def get(self, task_id: str) -> Handle:
        """Return the handle of a task. Raises: UnknownTask."""
        return self.client.get(task_id)

    def wait(self, task_ids: str | Iterable[str], timeout: float | None = None) -> list[TaskView]:
        """Wait until all these tasks have ended and return them, in the order given.

        Units: `timeout` in seconds. Raises: WaitTimeout, UnknownTask.
        """
        return self.client.wait(task_ids, timeout)

    def history(self, task_id: str) -> list[HistoryLine]:
        """Return the audit trail of a task, oldest first. Raises: UnknownTask."""
        return self.client.history(task_id)

    def cancel(self, task_ids: str | Iterable[str], *, by: str, reason: str) -> list[Acted]:
        """Ask tasks to stop; each id is answered on its own, in the order given."""
        return self.client.cancel(task_ids, by=by, reason=reason)

    def fail(self, task_ids: str | Iterable[str], *, by: str, reason: str) -> list[Acted]:
        """End stuck tasks as FAILED; each id is answered on its own."""
        return self.client.fail(task_ids, by=by, reason=reason)

    def rerun(self, task_ids: str | Iterable[str], *, by: str, reason: str) -> list[Acted]:
        """Put FAILED and TIMEOUT tasks back to PENDING; each id is answered on its own."""
        return self.client.rerun(task_ids, by=by, reason=reason)

    def pause(self, queue: str, priority: int | None = None, *, by: str, reason: str) -> bool:
        """Let no more tasks of a queue (or of one priority of it) start; running ones go on.

        False if it was paused already.
        """
        return self.client.pause(queue, priority, by=by, reason=reason)

    def resume(self, queue: str, priority: int | None = None, *, by: str, reason: str) -> bool:
        """Let tasks of a paused queue start again; False if it was not paused."""
        return self.client.resume(queue, priority, by=by, reason=reason)


def _options(
    body: object,
    queue: str | None,
    no_retry_for: tuple[type[BaseException], ...],
    interrupt: bool,
    limits: dict[str, Any],
) -> TaskOptions:
    where = _where(body)
    checked = check_values(limits, where, scoped=True)
    if checked.get("memory_limit_bytes", NO_MEMORY_LIMIT) is None:
        checked["memory_limit_bytes"] = NO_MEMORY_LIMIT
    exceptions = isinstance(no_retry_for, tuple) and all(
        isinstance(kind, type) and issubclass(kind, BaseException) for kind in no_retry_for
    )
    if not exceptions:
        raise ConfigError(
            f"{where}: no_retry_for must be a tuple of exception classes",
            remedy="Write no_retry_for=(ValueError,) with its comma.",
        )
    if not isinstance(interrupt, bool):
        raise ConfigError(f"{where}: interrupt must be True or False", remedy="Give one of them.")
    return TaskOptions(queue=queue, no_retry_for=no_retry_for, interrupt=interrupt, **checked)


def _secret_params(body: object, given: object) -> tuple[str, ...]:
    if isinstance(given, tuple) and all(isinstance(name, str) and name for name in given):
        return given
    raise ConfigError(
        f"{_where(body)}: secret_params must be a tuple of names",
        remedy='Write secret_params=("name",) with its comma.',
    )


def _expected(body: object, given: object) -> float | None:
    if given is None:
        return None
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if is_number and 0 < float(given) <= MAX_TIMEOUT_S:  # type: ignore[arg-type]
        return float(given)  # type: ignore[arg-type]
    raise ConfigError(
        f"{_where(body)}: expected_duration must be seconds above 0, not {shorten(given)}",
        remedy="Give the time that such a task usually takes, or leave it out.",
    )


def _where(body: object) -> str:
    return f"task {getattr(body, '__name__', body)!s}"


def _require_name(name: str, queue: str | None) -> None:
    try:
        parse_spec({"type": name, "queue": queue})
    except InvalidSpec as exc:
        raise ConfigError(
            f"task {name!r}: {exc}",
            remedy="Correct it in the decorator: name= for the type, queue= for its queue.",
            task=name,
        ) from exc


def _unknown_type(name: str, known: Mapping[str, object]) -> UnknownTaskType:
    import difflib  # only on the way to an error

    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f"Did you mean {near[0]}? " if near else ""
    return UnknownTaskType(
        f"no task type {name!r} is registered",
        remedy=f"{hint}This app knows: {', '.join(sorted(known))}.",
        type=name,
    )


def _warn_of_namesake() -> None:
    """Say so when the unrelated distribution `supervisor` (supervisord) shares our import name."""
    if importlib.util.find_spec("supervisor.supervisord") is None:
        return
    warnings.warn(NAMESAKE_WARNING, RuntimeWarning, stacklevel=3)
