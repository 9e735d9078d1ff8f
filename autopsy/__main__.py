"""The `autopsy` command: examine a process, show a bundle, or capture for a supervisor.

Invariants: leaves by os._exit after flushing, because an abandoned collector thread can be stuck
in the kernel; a watchdog ends a capture that overruns its budget. Exit codes: 0 done, 1 refused,
2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from autopsy import VERSION, options
from autopsy.errors import AlreadyExamined, AutopsyError, BundleNotWritten, UsageError

if TYPE_CHECKING:
    from autopsy.capture import Captured, Order
    from autopsy.collect.database.asking import Asking

_OVERVIEW = """\
usage: autopsy PID [options]            say why a running Python process is stuck; it lives on
       autopsy show BUNDLE              print the report of a bundle
       autopsy prune DIR [options]      remove bundles that are old or too many
       autopsy capture PID --out FILE   capture for a supervisor: one line of JSON

It is looked at from outside: nothing has to be installed in it or prepared. It takes half a second
or so, in which a process that is on the CPU stands still for some milliseconds.

  autopsy 4711                          the report, the most likely cause first
  autopsy 4711 --out why.zip            and everything that was seen, to send to somebody
  autopsy 4711 --html why.html          the report as a page, with pictures
  autopsy 4711 --json | jq .diagnosis   for a program
  autopsy 4711 --native                 with the calls of C code

`autopsy PID --help` and `autopsy COMMAND --help` list the options.
Permission: the process must be yours, or you root; in a container that needs --cap-add SYS_PTRACE.
Without it the report says what it could not see, and what would allow it.
Exit codes: 0 done; 1 refused (no such process, somebody examines it now, unreadable bundle, not
done within the budget); 2 wrong usage; 130 interrupted.
"""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave the process."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _command(arguments)
    except AutopsyError as exc:
        print(f"autopsy: {exc.message}\nremedy: {exc.remedy}", file=sys.stderr)
        code = exc.exit_code
    except BrokenPipeError:
        code = 1  # the reader of our output has gone; nobody is left to tell
    except Exception:  # ours to mend; the process must still leave, past any hanging thread
        traceback.print_exc()
        print("remedy: this is a fault of autopsy: please report the lines above", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        _complain("autopsy: interrupted; the process that was examined runs on")
        code = 130
    except SystemExit as exc:  # argparse after --help
        code = exc.code if isinstance(exc.code, int) else 0
    _leave(code)


def _command(arguments: list[str]) -> int:
    if not arguments:
        raise UsageError("a pid or a command is missing", remedy="Run `autopsy --help`.")
    if arguments[0] in ("-h", "--help"):
        print(_OVERVIEW, end="")
        return 0
    if arguments[0] == "--version":
        print(f"autopsy {VERSION}")
        return 0
    commands = {"show": _show, "prune": _prune, "capture": _capture}
    command = commands.get(arguments[0])
    if command is not None:
        return command(arguments[1:])
    if not arguments[0].startswith("-") and not arguments[0].isdecimal():
        raise UsageError(
            f"{arguments[0]} is neither a pid nor a command",
            remedy="Give the number of a process (pgrep -af python shows them), or see "
            "`autopsy --help`.",
        )
    return _examine(arguments)


def _examine(arguments: list[str]) -> int:
    from autopsy.terminal import painted, progress  # a supervisor's capture needs neither

    given = options.of_examine().parse_args(arguments)
    with progress(f"examining process {given.pid}", given.budget, sys.stderr):
        try:
            captured = _within_budget(given, {}, _too_late)
        except BundleNotWritten as exc:
            _print(painted(exc.report, sys.stdout))
            raise
    if given.html:
        from autopsy.page import write_page

        write_page(given.html, captured.page())
    _print(_summary(captured, given.out) if given.json else painted(captured.report, sys.stdout))
    return 0


def _too_late(why: str) -> None:
    _complain(f"autopsy: {why}\nremedy: Give it more: --budget SECONDS.")


def _show(arguments: list[str]) -> int:
    from autopsy.bundle import read_bundle  # only here: a capture never reads bundles
    from autopsy.page import page_of, write_page
    from autopsy.report.markup import plain
    from autopsy.terminal import painted

    given = options.of_show().parse_args(arguments)
    bundle = read_bundle(given.bundle)
    if given.html:
        page = page_of(bundle)
        _print(page) if given.html == "-" else write_page(given.html, page)
        return 0
    if not given.json:
        # Whoever made the bundle must not write to this terminal as they like.
        report = plain(bundle.report, len(bundle.report))
        _print(painted(report, sys.stdout))
        return 0
    from dataclasses import asdict

    whole = {**asdict(bundle.heading), "sections": bundle.sections}
    whole["statuses"] = {entry.name: entry.status for entry in bundle.entries}
    _print(whole)
    return 0


def _prune(arguments: list[str]) -> int:
    from autopsy.retention import prune  # only here: a capture never removes anything

    given = options.of_prune().parse_args(arguments)
    if not given.directory.is_dir():
        raise UsageError(f"no directory {given.directory}", remedy="Name the bundles' directory.")
    pruned = prune(given.directory, given.keep_days, given.keep_bytes)
    removed, kept = [str(one.path) for one in pruned.removed], len(pruned.kept)
    answer = {"removed": removed, "freed_bytes": pruned.freed_bytes, "kept": kept}
    lines = [*removed, f"{len(removed)} removed, {kept} kept"]
    _print(answer if given.json else "\n".join(lines))
    return 0


def _capture(arguments: list[str]) -> int:
    given = options.of_capture().parse_args(arguments)
    facts = _read_facts(given.facts) if given.facts else {}
    secrets = facts.pop("secrets", [])
    try:
        captured = _within_budget(
            given, facts, lambda why: _print(_failure(given.out, why)), map(str, secrets)
        )
    except AutopsyError as exc:
        busy = isinstance(exc, AlreadyExamined)
        _print(_failure(given.out, exc.message) | ({"status": "busy"} if busy else {}))
        raise
    _print(_summary(captured, given.out))
    return 0


def _asking(given: argparse.Namespace, facts: dict[str, Any]) -> Asking:
    """Return how databases may be asked. An address is never shown: it may hold a password."""
    from autopsy.collect.database.asking import VARIABLE, Asking

    if given.database:
        _require_addresses(given.database)
    addresses = (*given.database, *os.environ.get(VARIABLE, "").splitlines())
    application = str(facts.get("application") or "")
    return Asking(not given.no_databases, addresses, application)


def _require_addresses(given: Sequence[str]) -> None:
    from autopsy.collect.database.address import found_in

    for number, address in enumerate(given, 1):
        if not found_in(address):
            raise UsageError(
                f"--database no. {number} is no address of a PostgreSQL or Redis server",
                remedy="Write it as postgresql://USER@HOST:PORT/NAME or redis://HOST:PORT.",
            )


def _within_budget(
    given: argparse.Namespace,
    facts: dict[str, Any],
    late: Callable[[str], None],
    secrets: Iterable[str] = (),
) -> Captured:
    """Capture under a watchdog: writing to a dead file system must not outlast the budget."""
    from autopsy.capture import capture

    if not 0 < given.budget <= threading.TIMEOUT_MAX:  # nan is neither
        raise UsageError(
            "the budget is no number of seconds that can be waited for",
            remedy="Give --budget a number of seconds.",
        )
    order = _order(given, facts, secrets)

    # Whoever takes it speaks: the result and the watchdog never both print.
    the_word = threading.Lock()

    def give_up() -> None:
        if not the_word.acquire(blocking=False):
            return
        try:
            late(f"not finished within the budget of {given.budget} s")
        finally:
            _leave(1)  # also when nobody is left to be told: who started us may be dead

    watchdog = threading.Timer(given.budget, give_up)
    watchdog.daemon = True
    watchdog.start()
    captured = capture(order)
    the_word.acquire()  # for ever, if the watchdog is just leaving the process
    watchdog.cancel()
    return captured


def _order(given: argparse.Namespace, facts: dict[str, Any], secrets: Iterable[str]) -> Order:
    from autopsy.capture import Order
    from autopsy.memfd import Kept

    kept = Kept(
        log_ring=given.log_ring,
        output=given.output,
        dump=given.dump,
        output_start=given.output_start,
        begun_at=given.begun_at,
        stack_ring=given.stack_ring,
    )
    return Order(
        pid=given.pid,
        start_ticks=given.start_ticks,
        out=given.out,
        budget_s=given.budget,
        facts=facts,
        secrets=tuple(secrets),
        max_bytes=given.max_bytes,
        py_spy=given.py_spy,
        facts_only=given.facts_only,
        native=given.native,
        memory_over_bytes=given.memory_over,
        before_kill=given.before_kill,
        asking=_asking(given, facts),
        end_statements=given.end_statements,
        kept=kept,
    )


def _read_facts(source: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text()
        facts = json.loads(text)
    except (OSError, ValueError) as exc:
        raise UsageError(
            f"the facts cannot be read: {exc}", remedy="Give --facts one JSON object."
        ) from exc
    if not isinstance(facts, dict):
        raise UsageError("the facts are not a JSON object", remedy="Give --facts one JSON object.")
    return facts


def _summary(captured: Captured, out: Path | None) -> dict[str, Any]:
    return {
        "path": str(out) if out else None,
        "status": captured.status,
        "is_python": captured.heading.is_python,
        "diagnosis": [
            {"code": one.code, "confidence": one.confidence, "evidence": list(one.evidence)}
            for one in captured.heading.diagnosis
        ],
        "ms": captured.ms,
        "bytes": captured.size_bytes,
        "sections": {section.name: section.status for section in captured.sections},
        "hidden": "".join(
            one.payload.get("unseen", "") for one in captured.sections if one.name == "access"
        ),
        "terminated": [
            session
            for section in captured.sections
            if section.name == "terminated"
            for session in section.payload.get("postgresql", [])
        ],
    }


def _failure(out: Path | None, why: str) -> dict[str, Any]:
    return {
        "path": str(out) if out else None,
        "status": "failed",
        "reason": why,
        "is_python": None,
        "diagnosis": [],
        "ms": 0,
        "bytes": 0,
        "sections": {},
    }


def _print(what: str | dict[str, Any]) -> None:
    print(what if isinstance(what, str) else json.dumps(what), flush=True)


def _complain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _leave(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or 1
    os._exit(code)


if __name__ == "__main__":
    main()
