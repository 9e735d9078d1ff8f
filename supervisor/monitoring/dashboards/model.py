"""What a dashboard is made of: rows of panels, each with its queries, as values without behaviour.

Secret kept here: none of Grafana's words but the ids of units and of the kinds of panels.
Invariants: everything is frozen; where a panel stands follows from its width and order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How a panel draws; the value is Grafana's id of the panel."""

    LINES = "timeseries"
    NUMBER = "stat"
    DIAL = "gauge"
    BARS = "bargauge"
    TABLE = "table"
    HEATMAP = "heatmap"
    STATES = "state-timeline"


class Unit(StrEnum):
    """What a number counts; the value is Grafana's id of the unit."""

    COUNT = "none"
    SHORT = "short"
    RATIO = "percentunit"
    SECONDS = "s"
    BYTES = "bytes"
    BYTES_PER_S = "Bps"
    PER_S = "suffix:/s"
    INSTANT = "dateTimeAsIso"
    TEXT = "string"


class Color(StrEnum):
    """The few colours that mean something."""

    GOOD = "green"
    WARN = "orange"
    BAD = "red"
    LATE = "purple"
    CALM = "blue"
    PLAIN = "text"


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression; `legend` names its series by labels in double braces."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Limit:
    """From `value` upwards the panel is of this colour; time series get a line there."""

    value: float
    color: Color


@dataclass(frozen=True, slots=True)
class Style:
    """How the series of a legend look; `series` is a regular expression over all of the name."""

    series: str
    color: Color | None = None
    dashed: bool = False
    on_right: bool = False
    unit: Unit | None = None


@dataclass(frozen=True, slots=True)
class Named:
    """What is shown in place of a value."""

    value: str
    text: str
    color: Color


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: of a label when `label` is set, else of the next query in order.

    A column without a title is not shown.
    """

    title: str
    unit: Unit = Unit.SHORT
    limits: tuple[Limit, ...] = ()
    label: str = ""
    decimals: int | None = None
    width: int | None = None
    named: tuple[Named, ...] = ()


#: Labels with many values.
_MANIFOLD = ("{{type}}", "{{label}}")


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel; widths are of 24, heights of 30 pixels.

    `low` is the colour below the first limit, `in_powers` draws on a logarithmic axis, `hidden` are
    labels that a table does not show. `leads_to` is the dashboard that the title's link opens.
    """

    kind: Kind
    title: str
    description: str
    unit: Unit
    queries: tuple[Query, ...]
    width: int = 8
    height: int = 8
    limits: tuple[Limit, ...] = ()
    low: Color = Color.GOOD
    styles: tuple[Style, ...] = ()
    columns: tuple[Column, ...] = ()
    hidden: tuple[str, ...] = ()
    named: tuple[Named, ...] = ()
    stacked: bool = False
    as_bars: bool = False
    with_points: bool = False
    in_powers: bool = False
    minimum: float | None = None
    maximum: float | None = None
    decimals: int | None = None
    when_empty: str = ""
    leads_to: str = ""

    @property
    def has_many(self) -> bool:
        """Whether there are more series than a legend has room for, most of them often at 0."""
        if self.kind is not Kind.LINES:
            return False
        return any(label in query.legend for query in self.queries for label in _MANIFOLD)


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading, put from left to right."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """What can be chosen at the top: the values of `label` among the series of `source`."""

    name: str
    title: str
    source: str


@dataclass(frozen=True, slots=True)
class Link:
    """A link in the dashboard's head; `path` is put behind the address of the web pages."""

    title: str
    path: str
    tooltip: str


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard; `name` is its file's, `variables` come after job and instance."""

    name: str
    title: str
    description: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...] = ()
    links: tuple[Link, ...] = ()

    @property
    def uid(self) -> str:
        """What it is addressed by."""
        return f"supervisor-{self.name}"

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All panels in the order they are put."""
        return tuple(panel for row in self.rows for panel in row.panels)
