"""The contents of a report: which parts, in which order; text and page show the same ones.

Secret: what a reader needs first. Pure. Invariant: a section that is missing, cut or of another
version costs its own part at most, and that part says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from autopsy.bundle import Heading
from autopsy.cause import meaning
from autopsy.report.part import Block, Lines, Part, Table
from autopsy.report.reading import listing, mapping, rows, text, words
from autopsy.report.resource import children, descriptors, host, memory, pools, sockets
from autopsy.report.server import databases
from autopsy.report.stacking import motion, ring, stacks, tasks
from autopsy.report.story import story
from autopsy.report.told import logs, output
from autopsy.report.waiting import waiting
from autopsy.section import Payload, Section, Status

_MAX_THREADS = 60
_SURE = (
    (0.9, "almost certain"), (0.75, "very likely"), (0.5, "likely"), (0.25, "possible"),
    (0.01, "a guess"), (0.0, "not known"),
)  # fmt: skip
_FORBIDDEN = "SYS_PTRACE"
_HINTS = (
    ("SYS_PTRACE", "Run autopsy as root, in a container with --cap-add SYS_PTRACE."),
    ("ptrace", "Run autopsy as root, or set kernel.yama.ptrace_scope to 0 on this host."),
    ("ermission", "Run autopsy as root, or as the user of the process."),
    ("server no driver", "Install the driver beside autopsy: pip install psycopg."),
    ("server refused", "Name an account it may use: --database postgresql://USER@HOST:PORT/NAME."),
    ("server unreachable", "Run autopsy where the server can be reached."),
    ("time box", "The host was busy or the process large; look again."),
    ("budget", "Give it more time: --budget SECONDS."),
    ("py-spy", "Check that py-spy runs: py-spy --version; name another one with --py-spy."),
)


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause as a person reads it; `sure` are the words for the confidence (0 to 1)."""

    code: str
    confidence: float
    sure: str
    sentence: str
    remedy: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The first thing to read: what it is in a line, when it was taken, and the causes."""

    title: str
    taken: str
    why: str
    causes: tuple[Cause, ...]


def verdict(heading: Heading, sections: Sequence[Section]) -> Verdict:
    """Return what the report says first."""
    payloads = {one.name: one.payload for one in sections}
    process, ended = payloads.get("process", {}), text(payloads.get("facts", {}).get("exit"))
    best = heading.diagnosis[0] if heading.diagnosis else None
    name = f"{best.code} ({best.confidence:.0%} sure)" if best else ended or "not diagnosed"
    if heading.is_python is False:
        name = f"not a Python process; {name}"
    elif heading.is_python is None and process.get("hidden"):
        name = f"hidden from us, perhaps not a Python process; {name}"
    at = f"{heading.captured_at} on {heading.host}, {heading.duration_ms:.0f} ms, {heading.status}"
    return Verdict(
        title=f"Autopsy of process {heading.pid}: {name}",
        taken=at,
        why=f"Why it was looked at: {heading.why}" if heading.why else "",
        causes=tuple(_causes(heading)),
    )


def _causes(heading: Heading) -> Iterator[Cause]:
    for one in heading.diagnosis:
        said = meaning(one.code)
        yield Cause(
            one.code,
            one.confidence,
            next(words for least, words in _SURE if one.confidence >= least or not least),
            said.sentence if said else "",
            said.remedy if said else "",
            one.evidence,
        )


def document(heading: Heading, sections: Sequence[Section]) -> list[Part]:
    """Return the parts after the verdict, in the order of reading."""
    found = {section.name: section.payload for section in sections}

    def of(name: str) -> Payload:
        return found.get(name) or {}

    makers: tuple[tuple[str, Callable[[], Part | None]], ...] = (
        ("What the supervisor knew", lambda: story(of("facts"))),
        ("Who waits for what", lambda: waiting(found)),
        ("Databases", lambda: databases(of("databases"), of("terminated"))),
        ("Process", lambda: process(of("process"))),
        ("Stacks", lambda: stacks(of("stacks"), of("process"))),
        ("Quick looks", lambda: motion(of("motion"))),
        ("The last minutes", lambda: ring(of("ring"))),
        ("Tasks of asyncio", lambda: tasks(of("asyncio"))),
        ("Host", lambda: host(of("host"))),
        ("Memory", lambda: memory(of("memory"), of("growth"), of("heap"))),
        ("Log records", lambda: logs(of("logs"))),
        ("End of its output", lambda: output(of("output"), of("logs"))),
        ("Sockets", lambda: sockets(of("sockets"))),
        ("Connection pools", lambda: pools(of("pools"))),
        ("Descriptors", lambda: descriptors(of("fds"))),
        ("Descendants", lambda: children(of("children"))),
        ("What could not be seen", lambda: unseen(sections)),
        ("Sections", lambda: statuses(heading, sections)),
    )
    parts = [_made(title, maker) for title, maker in makers]
    return [part for part in parts if part is not None]


def _made(title: str, maker: Callable[[], Part | None]) -> Part | None:
    try:
        return maker()
    except Exception as exc:  # an odd payload must cost its own part only, and be told
        why = f"This part could not be made ({type(exc).__name__}: {exc}); see its section."
        return Part(title.lower().replace(" ", "-"), title, (Lines((why,)),))


def process(payload: Payload) -> Part | None:
    """Return the process as a whole and what each thread does in the kernel."""
    if not payload:
        return None
    status = mapping(payload.get("status"))
    state, rss, threads = (status.get(key, "?") for key in ("State", "VmRSS", "Threads"))
    command = words(payload.get("command_line")) or text(payload.get("name"))
    many = "thread" if str(threads) == "1" else "threads"
    lines = Lines((command, f"state {state}, RSS {rss}, {threads} {many}"))
    in_no_call = "hidden" if payload.get("hidden") else "user code"
    found = rows(payload, "threads", "tid")
    body = tuple(
        (
            str(one["tid"]),
            text(one.get("name")),
            text(one.get("state"), "?"),
            text(one.get("syscall"), in_no_call),
            text(one.get("wchan")) if one.get("wchan") != "0" else "",
        )
        for one in found[:_MAX_THREADS]
    )
    head = ("thread", "name", "state", "system call", "in the kernel")
    table = Table(head, body, len(found) - len(body), frozenset({0}))
    return Part("process", "Process", (lines, table) if body else (lines,))


def unseen(sections: Sequence[Section]) -> Part | None:
    """Return what could not be seen and what would allow it; None when all was."""
    hidden = tuple(_hidden(sections))
    body = tuple(
        (one.name, one.reason or one.status.value, _hint(one.reason))
        for one in sections
        if _is_gap(one) and not (hidden and _FORBIDDEN in one.reason)
    )
    body += tuple(_silent_servers(sections))
    blocks: list[Block] = [Lines(hidden)] if hidden else []
    if body:
        blocks.append(Table(("section", "why", "how"), body))
    return Part("unseen", "What could not be seen", tuple(blocks)) if blocks else None


def _is_gap(section: Section) -> bool:
    """A collector that was skipped since there is nothing to look at leaves no gap."""
    if section.status is Status.SKIPPED:
        return bool(_hint(section.reason))
    return section.status is not Status.OK


def _silent_servers(sections: Sequence[Section]) -> Iterator[tuple[str, str, str]]:
    found = next((one.payload for one in sections if one.name == "databases"), {})
    for kind, name in (("postgresql", "PostgreSQL"), ("redis", "Redis")):
        for server in rows(found, kind, "server"):
            status = text(server.get("status"), "ok")
            if status != "ok":
                why = f"{name} at {server['server']}: {status}: {text(server.get('reason'))}"
                yield "databases", why, _hint(f"server {status}")


def _hidden(sections: Sequence[Section]) -> Iterator[str]:
    """Say once what the kernel does not let us see, however many sections lack it."""
    access = next((one.payload for one in sections if one.name == "access"), {})
    if not access.get("hidden"):
        return
    yield f"Hidden by the kernel: {text(access.get('unseen'))}."
    yield f"Why: {text(access.get('why'))}."
    for number, how in enumerate(listing(access.get("allow"))):
        yield f"{'To see it' if number == 0 else 'Or'}: {text(how)}."
    without = [one.name for one in sections if _FORBIDDEN in one.reason]
    if without:
        yield f"Missing for that: {', '.join(without)}."


def _hint(reason: str) -> str:
    return next((hint for word, hint in _HINTS if word in reason), "")


def statuses(heading: Heading, sections: Sequence[Section]) -> Part:
    """Return how each section was obtained, and by which tools."""
    body = tuple(
        (one.name, one.status.value, f"{one.ms:.1f} ms", one.reason or "") for one in sections
    )
    tools = ", ".join(f"{name} {version}" for name, version in sorted(heading.tools.items()))
    head = ("section", "status", "time", "reason")
    blocks = (Table(head, body, numbers=frozenset({2})), Lines((f"made by {tools}",)))
    return Part("sections", "Sections", blocks if tools else blocks[:1], folded=True)
