"""How values look on a page: filters of the templates.

Invariant: only `moment` and `told` return markup, and escape what they are given; all else is
escaped by the templates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlencode

from flask_babel import gettext as _
from markupsafe import Markup, escape

from supervisor.clock import stamp
from supervisor.model.states import REASON_MEANINGS, Reason
from supervisor.words.retold import retold
from supervisor.words.text import ago, plain, size, span

#: Characters of a value that a page shows; the command line shows all of it.
VALUE_MAX = 20_000
_SHORT = 8
_CODE = re.compile(r"`([^`]+)`")


def moment(value: datetime | None) -> Markup:
    """Return a time in UTC, to the millisecond, that programs can read too."""
    if value is None:
        return Markup("–")
    return Markup('<time datetime="{}">{}</time>').format(value.isoformat(), stamp(value))


def told(value: object) -> Markup:
    """Return a sentence with what stands between backticks as code, without control characters."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(line(value)))))  # noqa: S704 - escaped


def since(value: datetime | None, now: datetime) -> str:
    """Return how long ago a time was, or in how long it will be."""
    if value is None:
        return "–"
    text = ago(value, now)
    return text if value > now else str(_("%(age)s ago", age=text))


def line(value: object) -> str:
    """Return foreign text as one line without control characters; a dash for none."""
    if value is None or value == "":
        return "–"
    return plain(value, keep="").replace("\\x0a", " ")


def lines(value: object) -> str:
    """Return foreign text without control characters but ends of lines, cut where it is long."""
    text = plain(value)
    return text if len(text) <= VALUE_MAX else f"{text[:VALUE_MAX]}\n… {len(text) - VALUE_MAX} more"


def pretty(value: str | None) -> str:
    """Return JSON text with a line for each of its parts."""
    if value is None:
        return "–"
    try:
        return lines(json.dumps(json.loads(value), ensure_ascii=False, indent=2))
    except ValueError:
        return lines(value)


def short(task_id: str | None) -> str:
    """Return the end of an id, by which people tell ids apart."""
    return "–" if not task_id else f"…{line(task_id)[-_SHORT:]}"


def meaning(reason: str | None) -> str:
    """Say what a reason of a move means; '' for a note's own words."""
    if reason not in set(Reason):
        return ""
    return str(_(REASON_MEANINGS[Reason(reason)].replace("`", "")))


def percent(share: float | None) -> str:
    """Return a share of one as people read it."""
    if share is None:
        return "–"
    return f"{share:.1%}" if 0 < share < 0.1 else f"{share:.0%}"


def clock(seconds: float) -> str:
    """Return the time of a day, of seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S")


def amount(value: float | None, unit: str = "") -> str:
    """Return a number of a chart with its unit, as the script of the pages writes it."""
    if value is None:
        return "–"
    if unit == "bytes":
        return size(int(value))
    if unit == "ratio":
        return percent(value)
    return f"{number(value)} {unit}".rstrip()


def number(value: float) -> str:
    """Return a number as people read it, with three digits where it is not whole."""
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.3g}"


def sparkline(values: Sequence[float | None], width: int, height: int) -> list[str]:
    """Return the points of the lines that join the values; they are apart where one is missing."""
    most = max((value for value in values if value is not None), default=0) or 1
    step = (width - 2) / max(1, len(values) - 1)
    lines_: list[list[str]] = [[]]
    for at, value in enumerate(values):
        if value is None:
            lines_.append([])
        else:
            lines_[-1].append(f"{1 + at * step:.1f},{2 + (height - 4) * (1 - value / most):.1f}")
    return [" ".join(points) for points in lines_ if points]


def query(parts: Sequence[tuple[str, str]]) -> str:
    """Return the query of an address, of those parts that say something."""
    return urlencode([part for part in parts if part[1]], quote_via=quote, safe="/")


def _retold(text: str | None) -> str:
    """Return what one of ours has written down, in the tongue of the reader; '' for nothing."""
    return retold(text) if text else ""


FILTERS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "moment": moment,
        "since": since,
        "line": line,
        "lines": lines,
        "pretty": pretty,
        "short": short,
        "meaning": meaning,
        "percent": percent,
        "span": span,
        "told": told,
        "clock": clock,
        "amount": amount,
        "number": number,
        "retold": _retold,
        "sparkline": sparkline,
        "size": size,
    }
)
