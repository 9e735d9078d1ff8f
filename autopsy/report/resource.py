"""What a process holds, as parts of the report: memory, descriptors, connections, children.

Secret: which numbers are worth a line. Pure; a section that is missing or odd tells less.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from autopsy.report.part import Block, Chart, Drawing, Lines, Part, Table
from autopsy.report.reading import count, listing, mapping, missing, number, rows, size, span, text
from autopsy.report.reading import words as command
from autopsy.section import Payload

_MAX_ROWS = 100
_MAX_TYPES = 20
_MAX_DEPTH = 16
_MAX_CONTAINERS = 10
# A look at growth that was shorter says nothing if nothing grew.
_SHORT_S = 10.0
_PRESSED = 0.1
# From here on the same ones are counted first.
_MANY_SOCKETS, _MAX_GROUPS = 20, 20
_NUMBERED = re.compile(r"\d+")
_GROUP_FROM = 4


def memory(memory: Payload, growth: Payload, heap: Payload) -> Part | None:
    """Return the memory: now, over time, and by type."""
    lines = tuple(_memory_lines(memory, heap))
    blocks: list[Block] = [Lines(lines)] if lines else []
    blocks += _growth(growth)
    body = tuple(
        (text(one["type"]), str(count(one.get("count"))), size(one.get("bytes")))
        for one in rows(heap, "types", "type")[:_MAX_TYPES]
    )
    if body:
        blocks.append(Table(("type", "objects", "bytes"), body, numbers=frozenset({1, 2})))
    return Part("memory", "Memory", tuple(blocks)) if blocks else None


def _memory_lines(payload: Payload, heap: Payload) -> Iterator[str]:
    statm, rollup = mapping(payload.get("statm")), mapping(payload.get("rollup"))
    named = [
        ("RSS", statm.get("resident")),
        ("unique (USS)", payload.get("uss_bytes")),
        ("proportional (PSS)", payload.get("pss_bytes", _kib(rollup.get("Pss")))),
        ("anonymous", payload.get("anonymous_bytes", _kib(rollup.get("Anonymous")))),
        ("swapped", payload.get("swap_bytes", _kib(rollup.get("Swap")))),
    ]
    told = [f"{name} {size(value)}" for name, value in named if number(value)]
    if told:
        yield ", ".join(told)
    limits = mapping(payload.get("limits"))
    names = (
        ("cgroup_bytes", "limit of its control group"),
        ("cgroup_used_bytes", "used by its control group"),
        ("rlimit_as_bytes", "limit of address space"),
    )
    bounds = [f"{name} {size(limits[key])}" for key, name in names if number(limits.get(key))]
    if bounds:
        yield ", ".join(bounds)
    if number(heap.get("objects")):
        share = number(heap.get("share"))
        part = f", counted from {share:.0%} of them" if share and share < 1 else ""
        python = heap.get("python_bytes")
        takes = f", Python objects take about {size(python)}" if number(python) else ""
        yield f"about {heap['objects']} objects{part}{takes}"
    for one in rows(heap, "containers", "name")[:_MAX_CONTAINERS]:
        yield f"{one['name']} is a {text(one.get('type'), '?')} of {text(one.get('length'), '?')}"


def _kib(value: object) -> float | None:
    found = number(value)
    return None if found is None else found * 1024


def _growth(payload: Payload) -> Iterator[Block]:
    points = [
        [number(value) for value in point]
        for point in listing(payload.get("points"))
        if isinstance(point, list) and len(point) >= 2
    ]
    for column, name, told in (
        (1, "RSS", size),
        (2, "threads", _whole),
        (3, "descriptors", _whole),
    ):
        series = tuple(
            (abs(point[0]), value)
            for point in points
            if len(point) > column and point[0] is not None and (value := point[column]) is not None
        )
        if len(series) < 2 or (column > 1 and len({value for _, value in series}) == 1):
            continue
        first, last = series[0], series[-1]
        if first[0] - last[0] < _SHORT_S and told(first[1]) == told(last[1]):
            continue
        over = f"over {span(first[0] - last[0])}"
        words = f"{name}: {told(first[1])} -> {told(last[1])} {over}"
        values = [value for _, value in series]
        yield Drawing(Chart(name, series, told(min(values)), told(max(values))), (words,))
    base = mapping(payload.get("baseline"))
    if number(base.get("rss_bytes")):
        parts = [f"RSS {size(base['rss_bytes'])}"]
        parts += [f"{base[key]} {key}" for key in ("threads", "fds") if number(base.get(key))]
        age = span(abs(number(base.get("at_age_s")) or 0))
        yield Lines((f"at the start of the task, {age} ago: {', '.join(parts)}",))


def _whole(value: float) -> str:
    return f"{value:.0f}"


def host(payload: Payload) -> Part | None:
    """Return whether the host, or the control group, let the process run."""
    lines = tuple(_host_lines(payload))
    return Part("host", "Host", (Lines(lines),)) if lines else None


def _host_lines(payload: Payload) -> Iterator[str]:
    load = " ".join(f"{one:.1f}" for one in map(number, listing(payload.get("load"))) if one)
    if number(payload.get("cpus")):
        runnable = text(payload.get("runnable"), "?")
        yield f"{payload['cpus']} CPUs, load {load or '?'}, {runnable} runnable"
    memory = mapping(payload.get("memory"))
    if number(memory.get("total_bytes")):
        available, total = size(memory.get("available_bytes")), size(memory["total_bytes"])
        yield f"{available} of {total} memory available"
    cgroup = mapping(payload.get("cgroup"))
    for who, pressure in (
        ("somebody on the host", payload.get("pressure")),
        ("somebody in its control group", cgroup.get("pressure")),
    ):
        for resource, stall in mapping(pressure).items():
            ratio = number(mapping(mapping(stall).get("some")).get("window_ratio"))
            if ratio and ratio >= _PRESSED:
                yield f"{who} waited for {resource} {ratio:.0%} of the time"
    throttled = number(mapping(cgroup.get("cpu")).get("throttled_ratio"))
    if throttled:
        yield f"its control group was held back by its CPU quota in {throttled:.0%} of the periods"


def sockets(payload: Payload) -> Part | None:
    """Return the table of sockets: state, both ends, who is at the other, silence, queues."""
    found = rows(payload, "sockets", "fd")
    if not found:
        return None
    body = tuple(
        (
            str(one["fd"]),
            f"{text(one.get('kind'))} {text(one.get('state'))}".strip(),
            text(one.get("local"), "-"),
            text(one.get("peer"), "-"),
            _at_the_other_end(one),
            span(silent / 1000) if (silent := number(one.get("silent_ms"))) is not None else "",
            f"{count(one.get('receive_queue_bytes'))} / {count(one.get('send_queue_bytes'))}",
        )
        for one in found[:_MAX_ROWS]
    )
    head = ("fd", "state", "here", "peer", "who that is", "silent for", "unread / unsent")
    left = len(found) - len(body) + missing(payload, "sockets")
    table = Table(head, body, left, frozenset({0, 5, 6}))
    blocks = (_groups(payload), table) if len(found) > _MANY_SOCKETS else (table,)
    return Part("sockets", f"Sockets ({len(found) + missing(payload, 'sockets')})", blocks)


def _groups(payload: Payload) -> Table:
    found = rows(payload, "groups", "count")
    keys = ("count", "kind", "state", "peer")
    body = tuple(tuple(text(one.get(key)) for key in keys) for one in found[:_MAX_GROUPS])
    return Table(keys, body, len(found) - len(body), frozenset({0}))


def _at_the_other_end(socket: Payload) -> str:
    if socket.get("own_peer") is not None:
        return f"this process, fd {socket['own_peer']}"
    peer = mapping(socket.get("peer_process"))
    if not peer:
        return ""
    told = command(peer.get("command_line"), 80) or text(peer.get("name"))
    return f"{text(peer.get('pid'))} {told}".strip()


def descriptors(payload: Payload) -> Part | None:
    """Return the descriptors, those that differ in a number only as one row."""
    found = rows(payload, "fds", "fd", "target")
    if not found:
        return None
    kinds = Counter(_NUMBERED.sub("N", text(one["target"])) for one in found)
    body: list[tuple[str, ...]] = []
    told: set[str] = set()
    for one in found:
        kind = _NUMBERED.sub("N", text(one["target"]))
        if kinds[kind] < _GROUP_FROM:
            body.append((str(one["fd"]), text(one["target"])))
        elif kind not in told:
            told.add(kind)
            body.append((str(one["fd"]), f"{text(one['target'])} and {kinds[kind] - 1} like it"))
    total = payload.get("count", len(found))
    title = f"Descriptors ({total} of {text(payload.get('limit'), '?')})"
    shown = tuple(body[:_MAX_ROWS])
    left = count(total) - len(found) + len(body) - len(shown)
    table = Table(("fd", "target"), shown, left, frozenset({0}))
    return Part("fds", title, (table,), folded=True)


def children(payload: Payload) -> Part | None:
    """Return the tree of descendants."""
    found = rows(payload, "children", "pid")
    if not found:
        return None
    body = tuple(
        (
            f"{'  ' * max(0, min(count(one.get('depth')), _MAX_DEPTH) - 1)}{one['pid']}",
            text(one.get("state")),
            text(one.get("wchan")),
            command(one.get("command_line"), 300) or text(one.get("name")),
        )
        for one in found[:_MAX_ROWS]
    )
    left = len(found) - len(body) + missing(payload, "children")
    table = Table(("pid", "state", "in the kernel", "command"), body, left)
    return Part("children", f"Descendants ({len(found)})", (table,))


def pools(payload: Payload) -> Part | None:
    """Return the connection pools of the process and how full they are."""
    found = rows(payload, "pools", "kind")
    if not found:
        return None
    keys = ("kind", "size", "checked_out", "overflow", "max_overflow", "waiting", "timeout_s")
    body = tuple(tuple(text(one.get(key), "-") for key in keys) for one in found[:_MAX_ROWS])
    head = ("pool", "size", "taken", "overflow", "at most", "waiting", "timeout s")
    return Part("pools", "Connection pools", (Table(head, body, numbers=frozenset(range(1, 7))),))
