"""Who waits for what and who has it: one graph from the locks of threads, tasks, files and servers.

Secret: how four sections become one picture, and what is left out of it: idle workers of a pool
and whoever waits for something unknown tell nothing. Pure; called by `view`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from autopsy.report.part import Drawing, Edge, Graph, Node, Part
from autopsy.report.reading import listing, mapping, place, rows, span, text, words
from autopsy.section import Payload
from autopsy.source import is_own

# More than these in a row in front of one lock are drawn as one.
_QUEUE_SHOWN = 3
_MAX_NODES = 40
_MAX_PIECES = 12
# The picture shows some forty nodes; what looks for circles takes time with the square of these.
_MAX_EDGES = 600
_TOLD = ("lock", "condition", "queue item", "thread to end", "semaphore")
_WAITS, _HELD, _ENDS, _BLOCKED = "waits for", "held by", "waits for the end of", "blocked by"
_ANSWER = "waits for the answer of"
_READS = ("read", "recvfrom", "recvmsg")


@dataclass(slots=True)
class _Net:
    """Nodes and edges as they are found; the first word on a node stands."""

    nodes: dict[str, Node] = field(default_factory=dict)
    edges: dict[tuple[str, str], Edge] = field(default_factory=dict)

    def node(self, key: str, kind: str, title: str, detail: str = "") -> str:
        known = self.nodes.get(key)
        if known is None or (detail and not known.detail):
            self.nodes[key] = Node(key, kind, title, detail)
        return key

    def edge(self, start: str, end: str, label: str) -> None:
        if len(self.edges) < _MAX_EDGES:
            self.edges.setdefault((start, end), Edge(start, end, label))


def waiting(payloads: Mapping[str, Payload]) -> Part | None:
    """Return the drawing of who waits for whom; None when nobody does."""
    net = _Net()
    _threads(net, payloads.get("thread_locks") or {})
    _tasks(net, payloads.get("asyncio") or {})
    _files(net, payloads.get("locks") or {})
    _backends(net, payloads.get("databases") or {}, _readers(payloads))
    if not net.edges:
        return None
    cycle = in_cycles(list(net.edges.values()))
    drawn = _with_queues_as_one(net, cycle)
    pieces = sorted(_pieces(drawn), key=lambda keys: (not keys & cycle, -len(keys)))
    blocks = tuple(_drawing(drawn, keys, cycle) for keys in pieces[:_MAX_PIECES])
    return Part("waits", "Who waits for what", blocks)


def in_cycles(edges: Sequence[Edge]) -> frozenset[str]:
    """Return the keys of all nodes from which a walk along the edges comes back."""
    after: dict[str, list[str]] = defaultdict(list)
    for edge in edges:
        after[edge.start].append(edge.end)
    candidates = _between(edges)
    return frozenset(key for key in candidates if key in _reached(after, key))


def _between(edges: Sequence[Edge]) -> frozenset[str]:
    """Return the keys that are left when those at which a walk begins or ends are taken away."""
    while True:
        kept = {edge.start for edge in edges} & {edge.end for edge in edges}
        left = [edge for edge in edges if edge.start in kept and edge.end in kept]
        if len(left) == len(edges):
            return frozenset(kept)
        edges = left


def _reached(after: Mapping[str, Sequence[str]], start: str) -> set[str]:
    seen: set[str] = set()
    queue = list(after.get(start, ()))
    while queue:
        key = queue.pop()
        if key not in seen:
            seen.add(key)
            queue += after.get(key, ())
    return seen


def _threads(net: _Net, payload: Payload) -> None:
    locks = {text(one["id"]): one for one in rows(payload, "locks", "id")}
    waits = [one for one in rows(payload, "waits", "tid") if one.get("for") in _TOLD]
    for wait in waits:  # where it waits says more of a thread than where it took something
        name = f"{text(wait.get('thread'), 'thread')} ({wait['tid']})"
        net.node(f"t{wait['tid']}", "thread", name, place(wait.get("at")))
    for wait in waits:
        waiter = f"t{wait['tid']}"
        if wait.get("joins_tid") is not None:
            joined = f"{text(wait.get('joins'), 'thread')} ({wait['joins_tid']})"
            net.edge(waiter, net.node(f"t{wait['joins_tid']}", "thread", joined), _ENDS)
        elif wait.get("lock") is not None:
            key = text(wait["lock"])
            lock = locks.get(key, {"kind": wait["for"], "name": wait.get("name")})
            net.edge(waiter, _lock(net, key, lock), _WAITS)
            _holder(net, key, lock)
        elif wait.get("name"):
            thing = net.node(f"w{wait['name']}", "lock", f"{wait['for']} {wait['name']}")
            net.edge(waiter, thing, _WAITS)


def _lock(net: _Net, key: str, lock: Payload) -> str:
    kind = text(lock.get("kind"), "lock").replace("queue item", "queue")  # or room for one
    title = f"{kind} {text(lock.get('name'), key)}"
    shared = "shared with other processes" if lock.get("shared") else ""
    unknown = lock.get("locked") and lock.get("holder_tid") is None
    gone = lock.get("holder_alive") is False
    detail = "its holder has ended" if gone else "its holder is not known" if unknown else shared
    return net.node(f"l{key}", "lock", title, detail)


def _holder(net: _Net, key: str, lock: Payload) -> None:
    tid = lock.get("holder_tid")
    if tid is None:
        return
    name = f"{text(lock.get('holder_name'), 'thread')} ({tid})"
    ended = "has ended" if lock.get("holder_alive") is False else ""
    taken = place(lock.get("held_at"))
    holder = net.node(f"t{tid}", "thread", name, ended or (f"took it in {taken}" if taken else ""))
    net.edge(f"l{key}", holder, _HELD)


def _tasks(net: _Net, payload: Payload) -> None:
    tasks = {text(one["id"]): one for one in rows(payload, "tasks", "id")}
    held = [
        (mapping(one), key) for key, task in tasks.items() for one in listing(task.get("holds"))
    ]
    holders = {text(one.get("id")): key for one, key in held}
    kinds = {text(one.get("id")): text(one.get("kind")) for one, _ in held}
    for key, task in tasks.items():
        lock, other = task.get("waits_lock"), task.get("awaits_task")
        if lock is None and other is None:
            continue
        waiter = _task(net, key, task)
        if other is not None:
            net.edge(waiter, _task(net, text(other), tasks.get(text(other), {})), "awaits")
        if lock is not None:
            title = text(task.get("waits_name"), text(lock))
            kind = kinds.get(text(lock)) or "Lock"
            named = title if title.startswith(kind) else f"{kind} {title}"
            net.edge(waiter, net.node(f"l{lock}", "lock", f"asyncio {named}"), _WAITS)
            if text(lock) in holders:
                held_by = holders[text(lock)]
                net.edge(f"l{lock}", _task(net, held_by, tasks[held_by]), _HELD)


def _task(net: _Net, key: str, task: Payload) -> str:
    stack = [mapping(one) for one in listing(task.get("stack"))]
    own = next((one for one in stack if is_own(text(one.get("file"), "<frozen "))), None)
    at = place(own or (stack[0] if stack else None))
    return net.node(f"a{key}", "task", text(task.get("name"), "task"), at)


def _files(net: _Net, payload: Payload) -> None:
    found = rows(payload, "locks", "file", "pid")
    waited = {text(one["file"]) for one in found if one.get("waiting")}
    for one in found:
        if text(one["file"]) not in waited:
            continue
        detail = words(one.get("command_line"), 80)
        who = net.node(f"p{one['pid']}", "process", f"process {one['pid']}", detail)
        named = f"file lock {one.get('path') or one['file']}"
        file = net.node(f"f{one['file']}", "lock", named, text(one.get("kind")))
        if one.get("waiting"):
            net.edge(who, file, _WAITS)
        else:
            net.edge(file, who, _HELD)


def _readers(payloads: Mapping[str, Payload]) -> dict[str, tuple[str, str]]:
    """Return which thread (its key and name) waits at which own address of a socket."""
    own = {
        text(one["fd"]): text(one["local"])
        for one in rows(payloads.get("sockets") or {}, "sockets", "fd", "local")
    }
    found: dict[str, tuple[str, str]] = {}
    for thread in rows(payloads.get("process") or {}, "threads", "tid"):
        waits_on = listing(thread.get("waits_on"))
        if thread.get("syscall") in _READS:
            waits_on = listing(thread.get("args"))[:1]
        for fd in map(text, waits_on):
            if own.get(fd):
                name = f"{text(thread.get('name'), 'thread')} ({text(thread['tid'])})"
                found[own[fd]] = f"t{thread['tid']}", name
    return found


def _backends(net: _Net, payload: Payload, readers: Mapping[str, tuple[str, str]]) -> None:
    for server in rows(payload, "postgresql", "backends"):
        backends = {text(one["pid"]): one for one in rows(server, "backends", "pid")}
        for pid, one in backends.items():
            blockers = [text(one) for one in listing(one.get("blocked_by"))]
            reader = readers.get(text(one.get("client"), "?"))
            if blockers and reader is not None:
                thread = net.node(reader[0], "thread", reader[1])
                net.edge(thread, _backend(net, server, pid, one), _ANSWER)
            for blocker in blockers:
                start = _backend(net, server, pid, one)
                end = _backend(net, server, blocker, backends.get(blocker, {}))
                net.edge(start, end, _BLOCKED)


def _backend(net: _Net, server: Payload, pid: str, backend: Payload) -> str:
    ours = "our connection, " if backend.get("ours") else ""
    title = f"PostgreSQL {pid} ({ours}{text(backend.get('application'), 'no application name')})"
    since = f" for {span(backend['state_s'])}" if backend.get("state_s") is not None else ""
    detail = f"{text(backend.get('state'))}{since}: {text(backend.get('query'))}"
    return net.node(f"b{server.get('server')}/{pid}", "backend", title, detail.strip(": "))


def _pieces(net: _Net) -> list[frozenset[str]]:
    """Return the nodes that are joined by edges, each group on its own."""
    beside: dict[str, list[str]] = defaultdict(list)
    for start, end in net.edges:
        beside[start].append(end)
        beside[end].append(start)
    found: list[frozenset[str]] = []
    for key in beside:
        if not any(key in piece for piece in found):
            found.append(frozenset(_reached(beside, key)))
    return found


def _drawing(net: _Net, piece: frozenset[str], cycle: frozenset[str]) -> Drawing:
    keys = sorted((key for key in net.nodes if key in piece), key=lambda key: key not in cycle)
    kept = set(keys if len(keys) <= _MAX_NODES else _nearest(net, keys)[:_MAX_NODES])
    graph = Graph(
        nodes=tuple(node for key, node in net.nodes.items() if key in kept),
        edges=tuple(edge for edge in net.edges.values() if {edge.start, edge.end} <= kept),
        cycle=cycle & kept,
    )
    words = tuple(_told(net, [one for one in net.edges.values() if one.start in kept], cycle))
    left = (f"{len(keys) - len(kept)} more are not shown",) if len(keys) > len(kept) else ()
    return Drawing(graph, (*words, *left))


def _nearest(net: _Net, keys: Sequence[str]) -> list[str]:
    """Return keys as a walk from the first of them meets them: those kept are joined."""
    beside: dict[str, list[str]] = defaultdict(list)
    for start, end in net.edges:
        beside[start].append(end)
        beside[end].append(start)
    met, seen = [keys[0]], {keys[0]}
    for key in met:
        new = [one for one in dict.fromkeys(beside[key]) if one not in seen]
        seen.update(new)
        met += new
    return met


def _told(net: _Net, edges: Sequence[Edge], cycle: frozenset[str]) -> Iterator[str]:
    for edge in edges:
        if edge.label == _HELD:
            continue
        start, end = net.nodes[edge.start], net.nodes[edge.end]
        holders = [net.nodes[one.end].title for one in net.edges.values() if one.start == edge.end]
        is_lock = end.kind == "lock"
        held = f", held by {' and '.join(holders)}" if is_lock and holders else ""
        unsaid = f" ({end.detail})" if is_lock and end.detail and not holders else ""
        mark = " (in a circle)" if {edge.start, edge.end} <= cycle else ""
        at = _at(start)
        yield f"{start.title} {edge.label} {end.title}{unsaid}{held}{at}{mark}"


def _at(node: Node) -> str:
    if node.kind not in ("thread", "task") or not node.detail:
        return ""
    return f", which {node.detail}" if node.detail.startswith("took it") else f", at {node.detail}"


def _with_queues_as_one(net: _Net, cycle: frozenset[str]) -> _Net:
    """Draw many who wait for one thing, and hold nothing, as one."""
    ends = {edge.end for edge in net.edges.values()}
    queues: dict[str, list[str]] = defaultdict(list)
    for edge in net.edges.values():
        if edge.start not in ends and edge.start not in cycle:
            queues[edge.end].append(edge.start)
    drawn = _Net(dict(net.nodes), dict(net.edges))
    for end, queue in queues.items():
        if len(queue) <= _QUEUE_SHOWN:
            continue
        first, gone = net.nodes[queue[0]], frozenset(queue)
        drawn.nodes = {key: one for key, one in drawn.nodes.items() if key not in gone}
        drawn.edges = {pair: one for pair, one in drawn.edges.items() if pair[0] not in gone}
        kinds = {"process": "processes"}.get(first.kind, f"{first.kind}s")
        many = drawn.node(f"q{end}", first.kind, f"{len(queue)} {kinds}", first.detail)
        label = net.edges[(queue[0], end)].label
        drawn.edge(many, end, label.replace("waits", "wait"))
    return drawn
