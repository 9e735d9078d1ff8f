"""The rows as tables that can stand in a document as they are."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

SPEEDS = (
    ("enqueue /s", "enqueue_rate", "{:,.0f}"),
    ("drain /s", "drain_rate", "{:,.0f}"),
    ("CPU of the drain, s per 1,000", "cpu_s", "{:.2f}"),
    ("CPU of enqueueing, s per 1,000", "enqueue_cpu_s", "{:.2f}"),
    ("begins after, p50 ms", "begin_p50_ms", "{:.1f}"),
    ("p99 ms", "begin_p99_ms", "{:.1f}"),
    ("memory, MB", "memory_mb", "{:.0f}"),
    ("cores used by others", "others_cores", "{:.2f}"),
)


Row = Mapping[str, Any]


def speeds(rows: Sequence[Row]) -> str:
    """Return one line a queue: the median of its rounds, with the least and the most."""
    table = [["queue", *(head for head, _, _ in SPEEDS)]]
    for row in rows:
        cells = [_spread(row["rounds"], key, form) for _, key, form in SPEEDS]
        table.append([row["label"], *cells])
    return markdown(table)


def guarantees(rows: Sequence[Row]) -> str:
    """Return what was measured of each queue, and what it keeps."""
    table = [["queue", "versions", "at once", "what survives a power cut", "what is on record"]]
    for row in rows:
        versions = ", ".join(f"{_named(n)} {v}" for n, v in row["versions"].items())
        table.append([row["label"], versions, str(row["at_once"]), row["survives"], row["record"]])
    return markdown(table)


def ratios(rows: Sequence[Row]) -> str:
    """Return ours beside the fastest of the others, and the fastest that keeps every task."""
    others = [row for row in rows if not row["ours"]]
    if not others:
        return ""
    table = [["ours", "beside", "drain", "CPU of the drain"]]
    for row in (row for row in rows if row["ours"]):
        alike = [one for one in others if one["durable"] and one["store"] == row["store"]]
        for what, some in (("durable, same kind of store", alike), ("of all", others)):
            if some:
                fastest = max(some, key=lambda one: _middle(one, "drain_rate"))
                least = min(some, key=lambda one: _middle(one, "cpu_s"))
                table.append(
                    [
                        row["label"],
                        f"the best {what}",
                        f"{_ratio(row, fastest, 'drain_rate')} {fastest['label']}",
                        f"{_ratio(row, least, 'cpu_s')} {least['label']}",
                    ]
                )
    return markdown(table)


def _ratio(ours: Row, theirs: Row, key: str) -> str:
    return f"{_middle(ours, key) / _middle(theirs, key):.2f} ×"


def _middle(row: Row, key: str) -> float:
    return float(statistics.median(one[key] for one in row["rounds"]))


def _named(package: str) -> str:
    return "redis-py" if package == "redis" else package


def endings(rows: Mapping[str, Any]) -> str:
    """Return the tables of how our tasks ended."""
    six = [row for row in rows if row.startswith(("cancel", "limit"))]
    table = [["seconds until gone", *(end["body"] for end in rows[six[0]])]]
    table += [
        [name, *(f"{end['gone_s']:.2f} ({end['how']})" for end in rows[name])] for name in six
    ]
    lines = [markdown(table), ""]
    for name in six:
        lines += [f"{name}, {end['body']}: {_record(end['record'])}" for end in rows[name]]
    lines += [
        f"grandchild after {end['way']}: {'survives' if end['survives'] else 'gone'}"
        for end in rows["grandchild"]
    ]
    for name in ("worker killed", "node killed", "poison"):
        row = rows[name]
        starts = ", ".join(f"{at:g}" for at in row["starts_s"])
        lines.append(f"{name}: began at {starts} s; {_record(row['record'])}")
    return "\n".join(lines)


def markdown(table: Sequence[Sequence[str]]) -> str:
    """Return a table whose first row is its head."""
    head, *body = (f"| {' | '.join(cells)} |" for cells in table)
    return "\n".join([head, "|" + "---|" * len(table[0]), *body])


def _spread(rounds: Sequence[Mapping[str, float]], key: str, form: str) -> str:
    values = sorted(one[key] for one in rounds)
    middle = form.format(statistics.median(values))
    if len(values) == 1:
        return middle
    return f"{middle} ({form.format(values[0])}–{form.format(values[-1])})"


def _record(record: Mapping[str, Any]) -> str:
    by = f", asked by {record['by'][0]}" if record["by"] else ""
    quarantined = ", quarantined" if record["quarantined"] else ""
    error = f" ({record['error']})" if record["error"] else ""
    attempts = "; ".join(record["attempts"])
    return f"{record['state']}{quarantined}{by}{error} [{attempts}]"
