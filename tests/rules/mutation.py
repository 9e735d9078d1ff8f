"""Breaks every rule in every way that matters and asks whether a test notices.

All mutants that no case before has noticed run in one promtool on the next case: each is a copy of
the rule under another name, and the checks of the original are repeated for it. A mutant of a
record takes with it copies of what depends on the record. It is killed when one of its checks does
not hold.

What survives is mostly no fault: a sum or a maximum that is only compared with 0, a matcher beside
one that says the same, a longer window where nothing lies before. Trends are not broken here: they
are measured on incidents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rules import files, promtool
from rules.case import Case, document
from supervisor.monitoring import rule as rules_as
from supervisor.monitoring.rule import Alert, Group, Record

#: The name of a mutant: the rule's own, and a number. Records may have colons, alerts may not.
_MARK = "__m"
_RANGE = re.compile(r"\[(\d+)([mhd])\]")
_NUMBER = re.compile(r'(?<![\w.:"\[])(\d+(?:\.\d+)?)(?![\w.:"\]])')
_COMPARISON = re.compile(r"(?<![=!])(>=|<=|>|<|==)(?!~)")
_MATCHER = re.compile(r'\{(\w+)(=~|!~|!=|=)"([^"]*)"\}')
_WORDS = (("and", "or"), ("or", "and"), ("unless", "and"))
_AGGREGATIONS = (
    ("sum without", "max without"),
    ("max without", "sum without"),
    ("sum by", "max by"),
    ("avg_over_time", "max_over_time"),
    ("min_over_time", "max_over_time"),
    ("max_over_time", "min_over_time"),
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One broken rule; `what` says how it is broken."""

    rule: Record | Alert
    original: str
    what: str


def mutants(rule: Record | Alert) -> Iterator[Mutant]:
    """Return all ways in which a rule is broken."""
    expr = rules_as.expression(rule, files.LIMITS)
    seen = {expr}
    for what, text in (*_texts(expr), *_parts(expr)):
        if text not in seen:
            seen.add(text)
            yield Mutant(replace(rule, expr=text), rule.name, what)
    if isinstance(rule, Alert) and rule.hold:
        yield Mutant(replace(rule, hold=""), rule.name, f"for {rule.hold} → at once")
        longer = str(int(rule.hold[:-1]) * 4) + rule.hold[-1]
        yield Mutant(replace(rule, hold=longer), rule.name, f"for {rule.hold} → {longer}")


def _texts(expr: str) -> Iterator[tuple[str, str]]:
    for found in _COMPARISON.finditer(expr):
        other = {">": "<", "<": ">", ">=": "<", "<=": ">", "==": "!="}[found[1]]
        yield f"{found[1]} → {other}", _put(expr, found, 1, other)
    for found in _NUMBER.finditer(expr):
        if expr[: found.start()].endswith("histogram_quantile("):
            continue
        for factor in (2.5, 0.4):
            other = f"{float(found[1]) * factor:g}" if float(found[1]) else f"{factor * 10:g}"
            yield f"{found[1]} → {other}", _put(expr, found, 1, other)
    for found in _RANGE.finditer(expr):
        other = {"m": "30s", "h": "5m", "d": "1h"}[found[2]]
        number = int(found[1])
        other = other if number == 1 else f"{max(number // 4, 1)}{found[2]}"
        yield f"{found[0]} → [{other}]", _put(expr, found, 0, f"[{other}]")
        yield f"{found[0]} → 4 times", _put(expr, found, 0, f"[{number * 4}{found[2]}]")
    for found in _MATCHER.finditer(expr):
        yield f"without {found[0]}", _put(expr, found, 0, "")
        for one in found[3].split("|") if "|" in found[3] else ():
            rest = "|".join(part for part in found[3].split("|") if part != one)
            text = f'{{{found[1]}{found[2]}"{rest}"}}'
            yield f"{found[0]} → {text}", _put(expr, found, 0, text)
    for before, after in (*_WORDS, *_AGGREGATIONS):
        for found in re.finditer(rf"\b{before}\b", expr):
            yield f"{before} → {after}", _put(expr, found, 0, after)


def _put(text: str, found: re.Match[str], group: int, other: str) -> str:
    return text[: found.start(group)] + other + text[found.end(group) :]


def _parts(expr: str) -> Iterator[tuple[str, str]]:
    """Drop each operand of `and`, `or`, `unless` at the top, with its operator."""
    pieces = re.split(
        r"^(and|or|unless(?: on \([^)]*\))?|and on \([^)]*\))$", expr, flags=re.MULTILINE
    )
    operators, operands = pieces[1::2], pieces[::2]
    for at in range(len(operands)) if operators else ():
        kept = [(op, one) for op, one in zip(["", *operators], operands, strict=True)]
        del kept[at]
        text = "\n".join(f"{op}\n{one}" if n else one for n, (op, one) in enumerate(kept))
        yield f"without part {at + 1}", text.strip()


#: Rules that one function makes for several windows: the first stands for all.
_OTHER_WINDOWS = re.compile(r"slo_errors:ratio_rate(30m|2h|6h|1d)$")


def of_file(name: str) -> list[Mutant]:
    """Return the mutants of the rules of a test file that no file before it has."""
    done = {rule.name for rule in _before(name)}
    made: list[Mutant] = []
    for rule in _rules(name):
        if rule.name not in done and not _OTHER_WINDOWS.search(rule.name):
            done.add(rule.name)
            made += mutants(rule)
    return made


def _before(name: str) -> Iterator[Record | Alert]:
    for other in files.CASES:
        if other == name:
            return
        yield from _rules(other)


def _rules(name: str) -> Iterator[Record | Alert]:
    cases, _ = files.CASES[name]
    return (rule for group in files.rules_for(cases) for rule in group.rules)


def survivors(name: str, chosen: Sequence[Mutant] | None = None) -> list[Mutant]:
    """Return those mutants of a test file that none of its checks notices."""
    cases, every = files.CASES[name]
    world = _World.of(cases)
    left = dict(enumerate(of_file(name) if chosen is None else chosen))
    for case in cases:
        asked = {check.alert for check in case.all_checks} | {value[0] for value in case.values}
        tried = {n: one for n, one in left.items() if world.affected(one.original) & asked}
        for number in _noticed(case, tried, world, every) if tried else ():
            del left[number]
    return list(left.values())


def _noticed(case: Case, tried: Mapping[int, Mutant], world: _World, every: str) -> set[int]:
    """Try mutants on a case, which says something about each; return those that it notices."""
    names = set().union(*(world.affected(one.original) for one in tried.values()))
    groups = list(files.only(files.needed(names, world.groups), world.groups))
    checks, values = [], []
    for number, one in tried.items():
        mark, affected = f"{_MARK}{number}", world.affected(one.original)
        groups.append(world.copy(one, affected, mark))
        checks += [
            replace(check, alert=check.alert + mark)
            for check in case.all_checks
            if check.alert in affected
        ]
        values += [(expr + mark, *rest) for expr, *rest in case.values if expr in affected]
    made = {
        "m.rules.yml": rules_as.document(groups, files.LIMITS, None),
        "m.test.yml": document(
            [replace(case, checks=checks, values=values)],
            ["m.rules.yml"],
            [group.name for group in groups],
            every,
        ),
    }
    passed, output = promtool.run(made, "m.test.yml")
    told = {int(number) for number in re.findall(rf"{_MARK}(\d+)", output)}
    if not passed and not told:
        raise AssertionError(output[:3000])
    return told


@dataclass(frozen=True, slots=True)
class _World:
    """The rules of a test file, and which of them depend on which."""

    groups: tuple[Group, ...]
    users: Mapping[str, set[str]]

    @classmethod
    def of(cls, cases: Sequence[Case]) -> _World:
        groups = files.rules_for(cases)
        users: dict[str, set[str]] = {}
        for rule in (rule for group in groups for rule in group.rules):
            for asked in files.asked(rules_as.expression(rule, files.LIMITS)):
                users.setdefault(asked, set()).add(rule.name)
        return cls(groups, users)

    def affected(self, name: str) -> set[str]:
        """Return the rule and all that depend on it."""
        names: set[str] = set()
        todo = {name}
        while todo:
            names |= todo
            todo = {user for one in todo for user in self.users.get(one, ())} - names
        return names

    def copy(self, mutant: Mutant, names: set[str], mark: str) -> Group:
        """Return a group with the mutant and copies of all that depend on it."""
        made = (
            _renamed(self._broken(rule, mutant), names, mark)
            for group in self.groups
            for rule in group.rules
            if rule.name in names
        )
        return Group(f"mutant{mark}", tuple(made))

    @staticmethod
    def _broken(rule: Record | Alert, mutant: Mutant) -> Record | Alert:
        same = rule.name == mutant.original and rules_as_labels(rule) == rules_as_labels(
            mutant.rule
        )
        return mutant.rule if same else rule


def rules_as_labels(rule: Record | Alert) -> object:
    """Return what tells rules of one name apart."""
    return rules_as.added_labels(rule) if isinstance(rule, Alert) else None


def _renamed(rule: Record | Alert, names: set[str], mark: str) -> Record | Alert:
    expr = rules_as.expression(rule, files.LIMITS)
    for name in names:
        expr = re.sub(rf"(?<![\w:]){re.escape(name)}(?![\w:])", name + mark, expr)
    return replace(rule, name=rule.name + mark, expr=expr)
