"""What a task body takes: the names, defaults and simple types of its parameters.

Secret kept here: how Python signatures and annotations are read. A mistake is found at submit and
named (`params.user_id`), not an hour later in a worker. Used by the app alone.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from supervisor.errors import ConfigError, Problem
from supervisor.model.spec import shorten

#: What JSON can bring back, by annotation. bool is an int to Python, but not to a caller.
_ACCEPTS: Mapping[Any, tuple[type, ...]] = types.MappingProxyType(
    {
        int: (int,),
        float: (float, int),
        str: (str,),
        bool: (bool,),
        list: (list, tuple),
        dict: (dict,),
        type(None): (type(None),),
    }
)


@dataclass(slots=True)
class Signature:
    """The parameters of one body after `ctx`."""

    body: Callable[..., Any]
    names: tuple[str, ...]
    required: frozenset[str]
    open_ended: bool
    _hints: dict[str, Any] | None = field(default=None)

    def problems(self, params: Mapping[str, Any]) -> list[Problem]:
        """Return what is missing, unknown or of the wrong simple type, each by its path."""
        missing = [name for name in self.names if name in self.required and name not in params]
        found = [Problem(f"params.{name}", "is missing") for name in missing]
        for name, value in params.items():
            if name in self.names:
                found += self._mistyped(name, value)
            elif not self.open_ended:
                takes = ", ".join(self.names) or "no parameters"
                found.append(Problem(f"params.{name}", f"is unknown; the task takes {takes}"))
        return found

    def misfit(self, params: Mapping[str, Any]) -> str:
        """Say in words what keeps the body from being called with these params, or return ''."""
        missing = [name for name in self.names if name in self.required and name not in params]
        unknown = [] if self.open_ended else [name for name in params if name not in self.names]
        said = [f"missing {_quoted(missing)}"] if missing else []
        if unknown:
            takes = _quoted(self.names) or "no parameters"
            said.append(f"unknown {_quoted(unknown)} (it takes {takes})")
        if not said:
            try:
                inspect.signature(self.body).bind(None, **params)
            except TypeError as exc:
                said.append(str(exc))
        return f"params do not fit the task: {'; '.join(said)}" if said else ""

    def _mistyped(self, name: str, value: object) -> list[Problem]:
        accepted = _accepted(self._resolved().get(name, Any))
        if accepted is None or _is_one_of(value, accepted):
            return []
        wanted = " or ".join("None" if t is type(None) else t.__name__ for t in accepted)
        return [Problem(f"params.{name}", f"must be {wanted}", shorten(value))]

    def _resolved(self) -> dict[str, Any]:
        if self._hints is None:
            try:
                self._hints = typing.get_type_hints(self.body)
            except (NameError, TypeError, AttributeError, SyntaxError):
                self._hints = {}  # names for a type checker only: nothing to check at run time
        return self._hints


def read_signature(body: Callable[..., Any], reserved: frozenset[str]) -> Signature:
    """Read a body's parameters.

    Raises: ConfigError if it takes no `ctx`, or takes what a submit by name cannot give.
    """
    name = getattr(body, "__name__", repr(body))
    if not inspect.isfunction(body):
        raise _unfit(name, "is not a function", "Decorate a plain or async function.")
    if inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
        raise _unfit(name, "is a generator", "Return the result instead of yielding it.")
    parameters = list(inspect.signature(body).parameters.values())
    positional = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    if not parameters or parameters[0].kind not in positional:
        raise _unfit(name, "takes no context", "Give it a first parameter `ctx`.")
    rest = parameters[1:]
    for parameter in rest:
        _require_nameable(name, parameter, reserved)
    named = [p for p in rest if p.kind is not inspect.Parameter.VAR_KEYWORD]
    return Signature(
        body=body,
        names=tuple(p.name for p in named),
        required=frozenset(p.name for p in named if p.default is inspect.Parameter.empty),
        open_ended=len(named) < len(rest),
    )


def _require_nameable(name: str, parameter: inspect.Parameter, reserved: frozenset[str]) -> None:
    unnamed = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL}
    if parameter.kind in unnamed:
        raise _unfit(
            name,
            f"takes {parameter} by position",
            "Params are submitted by name: make it an ordinary parameter.",
        )
    if parameter.name in reserved:
        raise _unfit(
            name,
            f"has a parameter {parameter.name!r}, which is an option of submit()",
            f"Rename it; the options are: {', '.join(sorted(reserved))}.",
        )


def _unfit(name: str, why: str, remedy: str) -> ConfigError:
    return ConfigError(f"task {name}: the function {why}", remedy=remedy, task=name)


def _accepted(hint: Any) -> tuple[type, ...] | None:
    """Return the types an annotation accepts, or None if it is not one we check."""
    origin = typing.get_origin(hint)
    if origin is typing.Union or origin is types.UnionType:
        parts = [_accepted(part) for part in typing.get_args(hint)]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return tuple(dict.fromkeys(t for part in known for t in part))
    try:
        return _ACCEPTS.get(origin or hint)
    except TypeError:  # an annotation that is not hashable, such as Annotated[int, []]
        return None


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _is_one_of(value: object, accepted: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in accepted
    return isinstance(value, accepted)
