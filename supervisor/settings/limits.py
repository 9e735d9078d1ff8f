"""Which limit holds for one task: the nearest of task, type, queue and global.

Secret kept here: the order, and that the operator has the last word on a type: a value in the
TOML table `[type.NAME]` beats the one in the decorator. Pure; asked by the node at every claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from supervisor.model.retry import RetryPolicy
from supervisor.model.spec import NO_SOFT_TIMEOUT

NO_MEMORY_LIMIT = 0
SOFT_RATIO = 0.9  # soft_timeout when nobody says otherwise: 90 % of the hard limit


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """What the decorator said about a type; None means: take it from queue or settings.

    A declared "none" is NO_SOFT_TIMEOUT for the soft limit, NO_MEMORY_LIMIT for that of memory.
    `no_retry_for` are exceptions that running again would not cure. `interrupt` False means that
    the body is never interrupted by an exception and looks at `ctx.canceled` itself. The values
    of `secret_params` are removed from all evidence. `expected_duration` is what a task usually
    takes: no limit, only compared with.
    Units: seconds and bytes.
    """

    queue: str | None = None
    timeout: float | None = None
    soft_timeout: float | None = None
    max_retries: int | None = None
    retry_base: float | None = None
    retry_max: float | None = None
    max_crashes: int | None = None
    progress_timeout: float | None = None
    cancel_grace: float | None = None
    memory_limit_bytes: int | None = None
    heartbeat_interval: float | None = None
    heartbeat_misses: int | None = None
    cpu_spin_after: float | None = None
    no_retry_for: tuple[type[BaseException], ...] = ()
    interrupt: bool = True
    secret_params: tuple[str, ...] = ()
    expected_duration: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLimits:
    """The limits that hold for one task. Units: seconds and bytes.

    `soft_timeout` may be NO_SOFT_TIMEOUT. `progress_timeout` is None unless the type set it: only
    then a stalled task may be killed. `stall_after` is the time without progress after which it
    is called stalled.
    """

    timeout: float
    soft_timeout: float
    max_retries: int
    retry_base: float
    retry_max: float
    max_crashes: int
    progress_timeout: float | None
    stall_after: float
    cancel_grace: float
    memory_limit_bytes: int | None
    heartbeat_interval: float
    heartbeat_misses: int
    cpu_spin_after: float

    @property
    def told_soft(self) -> float | None:
        """The soft limit as people are told it: None when there is none."""
        return None if self.soft_timeout == NO_SOFT_TIMEOUT else self.soft_timeout

    @property
    def policy(self) -> RetryPolicy:
        """The same limits as the ledger takes them."""
        return RetryPolicy(self.max_retries, self.retry_base, self.retry_max, self.max_crashes)


#: Settings that a queue and a type may have a value of their own for.
SCOPED = (
    "timeout",
    "soft_timeout",
    "max_retries",
    "retry_base",
    "retry_max",
    "max_crashes",
    "progress_timeout",
    "cancel_grace",
    "memory_limit_bytes",
    "heartbeat_interval",
    "heartbeat_misses",
    "cpu_spin_after",
)


def resolve(
    overall: Mapping[str, Any],
    of_queue: Mapping[str, Any],
    of_type: Mapping[str, Any],
    options: TaskOptions,
) -> TaskLimits:
    """Return the limits of a type on a queue, before the task's own fields.

    A soft limit that is not below the hard one it meets gives way: 90 % of the hard one holds.
    """
    declared = {name: getattr(options, name) for name in SCOPED}
    typed = {**{k: v for k, v in declared.items() if v is not None}, **of_type}
    merged = {**{name: overall[name] for name in SCOPED}, **of_queue, **typed}
    stall_after = merged.pop("progress_timeout")
    soft = soft_below(merged.pop("soft_timeout"), merged["timeout"])
    memory = merged.pop("memory_limit_bytes")
    return TaskLimits(
        **merged,
        memory_limit_bytes=None if memory == NO_MEMORY_LIMIT else memory,
        soft_timeout=soft,
        stall_after=stall_after,
        progress_timeout=typed.get("progress_timeout"),
    )


def with_task_fields(
    limits: TaskLimits, timeout: float | None, soft_timeout: float | None, max_retries: int | None
) -> TaskLimits:
    """Put the fields of one task's spec over the limits of its type."""
    if timeout is None and soft_timeout is None and max_retries is None:
        return limits
    hard = limits.timeout if timeout is None else timeout
    keeps = timeout is None or limits.soft_timeout == NO_SOFT_TIMEOUT
    inherited = limits.soft_timeout if keeps else None
    soft = soft_below(inherited if soft_timeout is None else soft_timeout, hard)
    retries = limits.max_retries if max_retries is None else max_retries
    return replace(limits, timeout=hard, soft_timeout=soft, max_retries=retries)


def soft_below(soft: float | None, hard: float) -> float:
    """Return the soft limit, or 90 % of the hard one when none is given or it is not below."""
    if soft == NO_SOFT_TIMEOUT:
        return soft
    return soft if soft is not None and soft < hard else hard * SOFT_RATIO
