"""Runs background tasks and says why a stuck one is stuck before it kills it.

Light on purpose: a worker imports this package, so names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from supervisor.app import App as App
    from supervisor.app import Task as Task
    from supervisor.errors import InvalidSpec as InvalidSpec
    from supervisor.errors import NoResult as NoResult
    from supervisor.errors import Refused as Refused
    from supervisor.errors import ShutdownRequested as ShutdownRequested
    from supervisor.errors import SoftTimeout as SoftTimeout
    from supervisor.errors import StoreUnavailable as StoreUnavailable
    from supervisor.errors import SupervisorError as SupervisorError
    from supervisor.errors import TaskCanceled as TaskCanceled
    from supervisor.errors import WaitTimeout as WaitTimeout

__version__ = "0.1.0"
__all__ = [
    "App",
    "InvalidSpec",
    "NoResult",
    "Refused",
    "ShutdownRequested",
    "SoftTimeout",
    "StoreUnavailable",
    "SupervisorError",
    "Task",
    "TaskCanceled",
    "WaitTimeout",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = "supervisor.app" if name in {"App", "Task"} else "supervisor.errors"
    value = getattr(import_module(home), name)
    globals()[name] = value  # the next look-up finds it without this function
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
