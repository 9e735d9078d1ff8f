"""A Prometheus that holds hours of made-up history, and what rules make of it, within seconds.

Secret kept here: samples become blocks by `promtool`; records come after, one level of nesting at a
time, by asking the same Prometheus over the range; what alerts would have done becomes `ALERTS`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from monitoring_servers import Prometheus, start_prometheus
from servers import ServerMissing

from supervisor.monitoring.promql import duration_s, read

#: Names and values, sorted by name.
Labels = tuple[tuple[str, str], ...]
#: Rules of a rule file as parsed: `record` or `alert`, `expr`, `for`, `labels`.
Rule = Mapping[str, Any]
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def labels_of(values: Mapping[str, str]) -> Labels:
    """Return labels in the form that series are kept under."""
    return tuple(sorted(values.items()))


@dataclass(frozen=True, slots=True)
class Span:
    """The time that a history covers: every `step_s` from `start` to `end`, both included."""

    start: int
    end: int
    step_s: int

    @property
    def times(self) -> range:
        """Return the Unix time of each sample."""
        return range(self.start, self.end + 1, self.step_s)


@dataclass(slots=True, eq=False)
class Samples:
    """Series by name and labels; a sample that is None is not there."""

    span: Span
    series: dict[str, dict[Labels, list[float | None]]] = field(default_factory=dict)

    def of(self, name: str, labels: Labels) -> list[float | None]:
        """Return a series, made without samples when it is new."""
        return self.series.setdefault(name, {}).setdefault(labels, [None] * len(self.span.times))

    @property
    def count(self) -> int:
        """Return how many samples there are."""
        every = (values for named in self.series.values() for values in named.values())
        return sum(value is not None for values in every for value in values)

    def lines(self) -> Iterator[str]:
        """Yield them as OpenMetrics; the type of a series says nothing to a block."""
        times = self.span.times
        for name, named in self.series.items():
            yield f"# TYPE {name} unknown\n"
            for labels, values in named.items():
                inside = ",".join(f'{key}="{value.translate(_ESCAPES)}"' for key, value in labels)
                head = f"{name}{{{inside}}}"
                for at, value in zip(times, values, strict=True):
                    if value is not None:
                        yield f"{head} {value!r} {at}\n"
        yield "# EOF\n"


@dataclass(eq=False)
class Past:
    """A Prometheus over a history; ask it for times within `span`."""

    prometheus: Prometheus
    span: Span

    def add(self, samples: Samples) -> None:
        """Put samples among those that are there; the Prometheus starts again on all of them."""
        with tempfile.TemporaryDirectory(prefix="backfill-") as scratch:
            file, blocks = Path(scratch, "samples.om"), Path(scratch, "blocks")
            with file.open("w") as text:
                text.writelines(samples.lines())
            blocks.mkdir()
            _promtool("tsdb", "create-blocks-from", "openmetrics", str(file), str(blocks))
            self.prometheus.crash()
            for block in blocks.iterdir():
                shutil.move(block, self.prometheus.directory / "data" / block.name)
        self.prometheus.start_again()

    def record(self, rules: Sequence[Rule]) -> None:
        """Add what recording rules make of the history; of alerts nothing is taken."""
        for level in levels([rule for rule in rules if "record" in rule]):
            made = Samples(self.span)
            for rule in level:
                for labels, values in self.ask(rule["expr"]):
                    made.series.setdefault(rule["record"], {})[labels] = values
            self.add(made)

    def alarm(self, rules: Sequence[Rule]) -> dict[str, list[int]]:
        """Add `ALERTS` as these rules would have made it; return when each alert fired."""
        made, fired = Samples(self.span), {}
        for rule in rules:
            if "alert" in rule:
                fired[rule["alert"]] = sorted(set(self._alarm(rule, made)))
        self.add(made)
        return fired

    def _alarm(self, rule: Rule, made: Samples) -> Iterator[int]:
        hold = duration_s(str(rule.get("for", "0s"))) or 0.0
        own = {"alertname": rule["alert"], **rule.get("labels", {})}
        for labels, values in self.ask(rule["expr"]):
            since: int | None = None
            for index, (at, value) in enumerate(zip(self.span.times, values, strict=True)):
                since = None if value is None else at if since is None else since
                if since is None:
                    continue
                state = "firing" if at - since >= hold else "pending"
                told = labels_of({**dict(labels), **own, "alertstate": state})
                made.of("ALERTS", told)[index] = 1
                if state == "firing":
                    yield at

    def ask(self, expr: str) -> Iterator[tuple[Labels, list[float | None]]]:
        """Yield labels (without the name) and values at each time of the span."""
        start, end, step = (str(one) for one in (self.span.start, self.span.end, self.span.step_s))
        told = self.prometheus.api(
            "/api/v1/query_range", query=expr, start=start, end=end, step=step
        )["data"]
        if told["resultType"] == "scalar":
            raise AssertionError(f"{expr} is a scalar")
        for one in told["result"]:
            labels = {name: text for name, text in one["metric"].items() if name != "__name__"}
            values: list[float | None] = [None] * len(self.span.times)
            for at, value in one["values"]:
                values[(int(at) - self.span.start) // self.span.step_s] = float(value)
            yield labels_of(labels), values

    def stop(self) -> None:
        """End the Prometheus and forget the history."""
        self.prometheus.stop()


def past(samples: Samples) -> Past:
    """Start a Prometheus over a history. Raises ServerMissing."""
    config = {"global": {"scrape_interval": f"{samples.span.step_s}s"}}
    prometheus = start_prometheus(json.dumps(config), "--storage.tsdb.retention.time=50y")
    made = Past(prometheus, samples.span)
    try:
        made.add(samples)
    except BaseException:
        made.stop()
        raise
    return made


def levels(rules: Sequence[Rule]) -> Iterator[list[Rule]]:
    """Yield rules in an order in which each finds the records that it uses."""
    left = {id(rule): rule for rule in rules}
    while left:
        unmade = {rule["record"] for rule in left.values()}
        ready = [rule for rule in left.values() if not unmade & set(_names(rule["expr"]))]
        assert ready, f"these records use each other: {sorted(unmade)}"
        yield ready
        for rule in ready:
            del left[id(rule)]


def _names(expr: str) -> Iterable[str]:
    return (selector.name for selector in read(expr).selectors)


def rules_of(documents: Iterable[Mapping[str, Any]]) -> list[Rule]:
    """Return the rules of parsed rule files, in their order."""
    return [rule for one in documents for group in one["groups"] for rule in group["rules"]]


def _promtool(*words: str) -> None:
    program = shutil.which("promtool")
    if program is None:
        raise ServerMissing("promtool is not installed")
    done = subprocess.run([program, *words], capture_output=True, text=True)
    assert done.returncode == 0, f"promtool {words[1]}: {done.stdout[-500:]}{done.stderr[-1500:]}"
