"""The tables and instructions of code objects, read as this interpreter itself reads them."""

from __future__ import annotations

import asyncio
import dis
import opcode
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from autopsy.cpython import bytecode, codetable
from autopsy.cpython.circle import circles

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="compares with 3.11")


def here() -> None:
    """Stands for a place in a function."""


def there() -> None:
    """Stands for another one."""


MODULES = (threading, asyncio.tasks, asyncio.selector_events, dis, types, pytest)


def codes_of(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_of(constant)


@pytest.fixture(scope="module")
def codes() -> list[types.CodeType]:
    found: list[types.CodeType] = []
    for module in MODULES:
        file = str(module.__file__)
        found += codes_of(compile(Path(file).read_text(), file, "exec"))
    assert len(found) > 300
    return found


def test_lines(codes: list[types.CodeType]) -> None:
    for code in codes:
        lines = {
            offset: line or 0
            for start, end, line in code.co_lines()
            for offset in range(start, end, 2)
        }
        table, first = code.co_linetable, code.co_firstlineno
        assert {one: codetable.line_at(table, first, one) for one in lines} == lines, code


def test_handlers(codes: list[types.CodeType]) -> None:
    parse = dis._parse_exception_table  # type: ignore[attr-defined]
    for code in codes:
        found = [
            (one.start, one.end, one.target, one.depth, one.lasti)
            for one in codetable.handlers(code.co_exceptiontable)
        ]
        expected = [(one.start, one.end, one.target, one.depth, one.lasti) for one in parse(code)]
        assert found == expected, code


def test_instructions(codes: list[types.CodeType]) -> None:
    for code in codes:
        found = [(one.opcode, one.argument) for one in bytecode.instructions(code.co_code)]
        expected = [
            (one.opcode, one.arg or 0)
            for one in dis.get_instructions(code)
            if one.opname != "EXTENDED_ARG"
        ]
        plain = [
            (number, argument if number >= dis.HAVE_ARGUMENT else 0) for number, argument in found
        ]
        assert plain == expected, code


def test_specialised_forms_are_those_of_the_interpreter() -> None:
    numbers = dis._all_opmap  # type: ignore[attr-defined]
    plain = dis.deoptmap  # type: ignore[attr-defined]
    forms = {numbers[form]: opcode.opmap[name] for form, name in plain.items()}
    caches = opcode._inline_cache_entries  # type: ignore[attr-defined]
    assert bytecode._PLAIN_FORM.items() <= forms.items()
    # Those left out have no cache and are of no interest.
    left_out = {number for form, number in forms.items() if form not in bytecode._PLAIN_FORM}
    assert [caches[number] for number in left_out] == [0] * len(left_out)
    assert {n: count for n, count in enumerate(caches) if count} == bytecode._CACHES


def test_torn_tables_end() -> None:
    junk = bytes(range(256))
    assert codetable.line_at(junk, 1, 10_000) == 0
    assert codetable.line_at(b"\xff" * 3, 1, 4) != 1_000_000
    for length in range(40):
        codetable.handlers(junk[-length:])
        list(bytecode.instructions(junk[:length]))
    ring = [codetable.Handler(0, 10, 4, 1, lasti=False)]
    assert codetable.guards(ring, 4) == ring


def lock_calls(function: types.FunctionType) -> tuple[bytecode.LockCall, ...]:
    code = function.__code__
    slots = tuple(dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars)))
    return bytecode.lock_calls(code.co_code, code.co_names, slots)


def standing_at_call_of(function: types.FunctionType, name: str) -> list[tuple[str, ...]]:
    calls = lock_calls(function)
    offset = next(one.offset for one in dis.get_instructions(function) if one.argval == name)
    return [one.path for one in bytecode.standing(calls, offset)]


def test_what_is_taken_and_not_given_back() -> None:
    def taking(self: threading.Thread, lock: threading.Lock) -> None:
        lock.acquire()
        try:
            self.account.guard.acquire(timeout=2)  # type: ignore[attr-defined]
            here()
        finally:
            lock.release()
        there()

    assert isinstance(taking, types.FunctionType)
    assert standing_at_call_of(taking, "here") == [("lock",), ("self", "account", "guard")]
    assert standing_at_call_of(taking, "there") == [("self", "account", "guard")]


def test_an_awaited_acquire_has_not_yet_taken() -> None:
    async def taking(lock: asyncio.Lock) -> None:
        await lock.acquire()
        here()

    assert isinstance(taking, types.FunctionType)
    calls = lock_calls(taking)
    waits = next(one.offset for one in dis.get_instructions(taking) if one.opname == "YIELD_VALUE")
    assert bytecode.standing(calls, waits) == []
    assert standing_at_call_of(taking, "here") == [("lock",)]


def test_circles() -> None:
    assert circles({1: [2], 2: [3], 3: [1], 4: [1], 5: [5], 6: [7]}) == [[1, 2, 3], [5]]
    assert circles({1: [9, 2], 2: [3], 3: [1], 4: [1, 3]}) == [[1, 2, 3]]
    assert circles({1: [2, 3], 2: [], 3: []}) == []
