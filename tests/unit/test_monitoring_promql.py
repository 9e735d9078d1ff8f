"""What an expression asks for, as our reader and as a real parser of PromQL see it."""

from __future__ import annotations

from typing import Any

import promql_parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.monitoring.promql import Matcher, Selector, duration_s, read

EXPRESSIONS = [
    "up",
    "supervisor_in_queue > 20 and supervisor_in_queue > supervisor_in_queue offset 10m",
    'sum by (type) (rate(supervisor_tasks_finished_total{outcome=~"failed|timeout"}[10m]))',
    "sum(rate(a_total[5m])) by (type) / on (type) group_left (queue) b",
    "SUM BY (queue) (a) unless ON () vector(1)",
    "a * on (type) group_left b",
    "histogram_quantile(0.99, sum without (instance) (rate(a_bucket[10m])))",
    "job:supervisor_slo_errors:ratio_rate1h > 14.4 * 0.01",
    "max_over_time(deriv(a[10m])[1h:1m] @ start() offset -5m) > bool 1e-3",
    "topk(10, max by (slot) (a)) == inf or -b ^ 0x1f > .5",
    '{__name__="a", type!~"b.c"} # a comment with a_name{in="it"}',
    "absent(up{job='supervisor'}) or absent_over_time(a[1h30m])",
    'label_replace(a, "to", "$1", "from", "(.*)")',
    'a{type="with \\"quotes\\" and } and {", queue=`raw\\n`}',
    "quantile by (a, b) (0.9, c) atan2 d",
    'count_values without (le) ("x", a) % ignoring (le) b',
]  # fmt: skip


def parsed(text: str) -> list[Selector]:
    """Return what the parser finds, in the order of the text."""
    found: list[Selector] = []

    def walk(node: Any) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            matchers = tuple(
                Matcher(one.name, _operator(one), one.value) for one in node.matchers.matchers
            )
            found.append(Selector(node.name or "", matchers))
            return
        for name in ("param", "lhs", "rhs", "args", "expr", "vector_selector"):
            inner = getattr(node, name, None)
            for one in inner if isinstance(inner, list) else [inner]:
                if type(one).__module__ == "promql_parser":
                    walk(one)

    walk(promql_parser.parse(text))
    return found


def _operator(matcher: Any) -> str:
    return {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}[
        str(matcher.op).removeprefix("MatchOp.")
    ]


def _name(one: Selector) -> str:
    return one.name or "".join(m.value for m in one.matchers if m.label == "__name__")


def same(text: str) -> None:
    def bare(selectors: list[Selector]) -> list[str]:
        """Return them without regard to their order, named by a matcher or not."""
        return sorted(
            "".join([one.name, *sorted(str(m) for m in one.matchers if m.label != "__name__")])
            for one in (Selector(_name(each), each.matchers) for each in selectors)
        )

    assert bare(list(read(text).selectors)) == bare(parsed(text)), text


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_it_finds_what_a_parser_finds(text: str) -> None:
    same(text)


LABEL = st.sampled_from(["type", "queue", "le", "on_", "by_", "sum_x"])
NAME = st.sampled_from(
    ["up", "supervisor_in_queue", "a:b:c", "sum_of", "by_night", "offset_x", "e1"]
)
DURATION = st.sampled_from(["5m", "1h30m", "250ms", "1d"])
VALUE = st.sampled_from(['"a"', "'b|c'", '""', '"}"', '"a # b"', "`raw`"])


@st.composite
def selectors(draw: st.DrawFn) -> str:
    conditions = [
        f"{draw(LABEL)}{draw(st.sampled_from(['=', '!=', '=~', '!~']))}{draw(VALUE)}"
        for _ in range(draw(st.integers(0, 2)))
    ]
    inside = "{" + ", ".join(conditions) + "}" if conditions else ""
    offset = draw(st.sampled_from(["", f" offset {draw(DURATION)}"]))
    return draw(NAME) + inside + offset


def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    group = st.tuples(st.sampled_from(["by", "without"]), st.lists(LABEL, max_size=2)).map(
        lambda one: f"{one[0]} ({', '.join(one[1])})"
    )
    aggregation = st.sampled_from(["sum", "max", "COUNT", "group", "stddev"])
    join = st.sampled_from(["", "on (type) ", "ignoring (le, queue) ", "on () group_left (type) "])
    operator = st.sampled_from(["+", "/", ">", "*", "%", "^"])
    number = st.sampled_from(["1", "0.5", "1e3", "2e-3", "0x1f", "Inf", ".5"])
    return st.one_of(
        st.tuples(aggregation, group, inner).map(lambda x: f"{x[0]} {x[1]} ({x[2]})"),
        st.tuples(aggregation, group, inner).map(lambda x: f"{x[0]}({x[2]}) {x[1]}"),
        st.tuples(inner, operator, join, inner).map(lambda x: f"({x[0]}) {x[1]} {x[2]}({x[3]})"),
        st.tuples(inner, st.sampled_from(["and", "or", "unless"]), inner).map(
            lambda x: f"({x[0]}) {x[1]} ({x[2]})"
        ),
        st.tuples(number, operator, inner).map(lambda x: f"{x[0]} {x[1]} ({x[2]})"),
        st.tuples(inner, DURATION).map(lambda x: f"max_over_time(({x[0]})[{x[1]}:1m])"),
        inner.map(lambda x: f"absent(\n  {x} # of it\n)"),
    )


@given(st.recursive(selectors(), grow, max_leaves=6))
def test_it_finds_what_a_parser_finds_in_whatever_is_written(text: str) -> None:
    same(text)


def test_labels_and_ranges_are_read_too() -> None:
    found = read("sum by (type, queue) (rate(a[10m])) / on (slot) group_left (x) b[1h30m:1m]")
    assert found.labels == ("type", "queue", "slot", "x")
    assert found.ranges_s == (600, 5400)


def test_variables_of_grafana_stand_for_values() -> None:
    text = (
        'sum(rate(a{job=~"$job", type=~"${type:regex}"}[$__rate_interval])) > $limit or [[x]] * b'
    )
    assert [one.name for one in read(text).selectors] == ["a", "b"]
    assert read(text).ranges_s == ()


@pytest.mark.parametrize("text", ["", "((", "a{", 'a{b="', "[5m", "}", "sum by (", "\\ £ ❄"])
def test_what_is_no_expression_does_no_harm(text: str) -> None:
    read(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15s", 15), ("1h30m", 5400), ("250ms", 0.25), ("1d", 86400), ("5", None), ("", None)],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert duration_s(text) == seconds
